//! The tools that agents call with JSON: the broker's own, and every tool of tools.d.
//!
//! Owns: the one catalogue that every door serves, and the way from a name and a JSON
//! input to a call of the broker's and back to an [`Observation`]. Must not: know who
//! carries the JSON (`listen` does), decide whether something may be done, or do it.
//!
//! - `catalogue`  which tools there are, with their schemas
//! - `alias`      other names, with field names of their own
//! - `input`      an input's text as its tool's type, and what is wrong with it
//! - `run`        programs: their input and output, by the broker's calls
//! - `kept`       of a long output, what there is room for
//! - `servers`    programs that go on after the call
//! - `format`     the catalogue as models want it

mod alias;
mod catalogue;
pub(crate) mod format;
mod input;
mod kept;
mod run;
mod servers;

use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tool_protocol::request::input_of;
use tool_protocol::{Code, Failure, Fault, Observation, Refusal, Request, Text};

pub(crate) use self::catalogue::Described;
use self::catalogue::{Kind, Prepared};
use self::servers::Servers;
use crate::broker::{Broker, Operated, Operating, Peer, TellOperated, Work};
use crate::registry::Tool;
use tool_policy::NamePattern;

/// Longer inputs than fit a message are not read on the broker's own thread.
const LONG: usize = tool_protocol::limits::MAX_FRAME;

/// A call that was understood.
struct Understood {
    /// The tool's own name.
    name: String,
    tool: Arc<Tool>,
    prepared: Prepared,
    /// The input, in the tool's own fields.
    said: Vec<u8>,
}

/// What a caller asks for.
#[derive(Debug)]
pub(crate) struct Invocation {
    /// Who asks.
    pub(crate) peer: Peer,
    /// The tool's name, or another name of it.
    pub(crate) tool: String,
    /// Its input: the text of a JSON object.
    pub(crate) input: Vec<u8>,
    /// The tools that the caller's door serves; all where unset.
    pub(crate) only: Option<Vec<String>>,
    /// Takes results as they come.
    pub(crate) pieces: Option<mpsc::Sender<serde_json::Value>>,
    /// Told, in a line, what is waited for.
    pub(crate) notices: Option<mpsc::Sender<String>>,
    /// Cancelled when nobody wants it any more: what runs is ended.
    pub(crate) gone: CancellationToken,
    /// Takes the answer on the thread that has it, where that is a thread for files.
    pub(crate) tell: Option<Tell>,
}

/// Takes an answer where it is made. It blocks nobody.
pub(crate) struct Tell(Box<dyn FnOnce(Observation) + Send>);

impl Tell {
    /// By that.
    pub(crate) fn new(tell: impl FnOnce(Observation) + Send + 'static) -> Tell {
        Tell(Box::new(tell))
    }
}

impl std::fmt::Debug for Tell {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Tell")
    }
}

/// The catalogue, and the broker behind it.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    broker: Arc<Broker>,
    runtime: Handle,
    servers: Arc<Servers>,
}

impl Agent {
    /// To be made on the broker's runtime.
    pub(crate) fn new(broker: Arc<Broker>) -> Agent {
        Agent { broker, runtime: Handle::current(), servers: Arc::default() }
    }

    /// The broker.
    pub(crate) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Waits until the programs that went on after their calls have ended; they are told to
    /// when the broker stops.
    pub(crate) async fn rest(&self) {
        self.servers.rest().await;
    }

    /// Every tool, by name; of a door that serves only some, those.
    pub(crate) fn tools(&self, only: Option<&[String]>) -> Vec<Described> {
        let serves = |name: &str| only.is_none_or(|only| only.iter().any(|one| one == name));
        let mut all: Vec<Described> = catalogue::own()
            .filter(|entry| self.own(entry.name).is_some())
            .map(catalogue::Entry::describe)
            .chain(self.broker.registry.snapshot().tools.values().map(|tool| catalogue::of(tool)))
            .filter(|described| serves(&described.name))
            .collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The same as [`Agent::call`], on the broker's own thread, from any other; `then` has what
    /// is observed there first.
    pub(crate) fn dispatch(
        &self,
        asked: Invocation,
        then: impl FnOnce(Observation) -> Observation + Send + 'static,
    ) -> JoinHandle<Observation> {
        let agent = self.clone();
        self.runtime.spawn(async move { then(agent.call(asked).await) })
    }

    /// One call, from its input to what is observed.
    pub(crate) async fn call(&self, asked: Invocation) -> Observation {
        let tool = asked.tool.clone();
        let lost = || Observation {
            success: false,
            tool,
            output: None,
            error: Some(Failure::from(Refusal::new(Code::Internal, "the answer was lost"))),
            duration_ms: 0,
            call_id: None,
        };
        self.answer(Invocation { tell: None, ..asked }).await.unwrap_or_else(lost)
    }

    /// The same; nothing where [`Invocation::tell`] has taken the answer.
    pub(crate) async fn answer(&self, mut asked: Invocation) -> Option<Observation> {
        let began = Instant::now();
        let refused = |tool: &str, error: Failure| Observation {
            success: false,
            tool: tool.to_owned(),
            output: None,
            error: Some(error),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            call_id: None,
        };
        let understood =
            self.understand(asked.peer, &asked.tool, &asked.only, std::mem::take(&mut asked.input));
        let Understood { name, tool, prepared, said } = match understood.await {
            Ok(understood) => understood,
            Err((name, failure)) => return Some(refused(&name, failure)),
        };
        let seen = match prepared {
            Prepared::Files { work, words } => {
                return self.operate(tool, name, said, work, words, asked).await;
            }
            Prepared::Servers(ask) => {
                let words = ask.name().and_then(word).into_iter().collect();
                let work = Box::new(servers::Asked::new(&self.servers, asked.peer, ask));
                return self.operate(tool, name, said, work, words, asked).await;
            }
            // Long beside the others, whose calls would all take as much room.
            Prepared::Start(starting) => {
                Box::pin(servers::start(&self.servers, &self.broker, tool, starting, asked)).await
            }
            Prepared::Program(program) => {
                drop(said);
                let known = tool.any.then_some(tool);
                Box::pin(run::run(&self.broker, known, name, program, asked)).await
            }
        };
        Some(seen)
    }

    /// What is asked for; a long input is read elsewhere, since whatever else the broker does
    /// would wait for that. Of an error the tool's name too.
    async fn understand(
        &self,
        peer: Peer,
        tool: &str,
        only: &Option<Vec<String>>,
        input: Vec<u8>,
    ) -> Result<Understood, (String, Failure)> {
        if input.len() <= LONG {
            return self.read(tool, only.as_deref(), input);
        }
        let (agent, name, only) = (self.clone(), tool.to_owned(), only.clone());
        let read = self.broker.aside(peer, move || agent.read(&name, only.as_deref(), input)).await;
        read.map_err(|error| {
            let message = format!("the input cannot be read: {error}");
            (tool.to_owned(), Failure::new(Fault::Broker(Code::SpawnFailed), message))
        })?
    }

    fn read(
        &self,
        tool: &str,
        only: Option<&[String]>,
        input: Vec<u8>,
    ) -> Result<Understood, (String, Failure)> {
        let is_tool = |name: &str| self.broker.registry.find(name).is_some();
        let input = input_of(input).map_err(Failure::from);
        let resolved = input.and_then(|input| alias::resolve(tool, input, is_tool));
        let (name, input) = resolved.map_err(|failure| (tool.to_owned(), failure))?;
        let named = only.is_none_or(|only| only.contains(&name));
        let found = if named { self.find(&name) } else { None };
        let Some((found, kind)) = found else { return Err((name, unknown(tool))) };
        match kind.prepare(&found, tool, &input) {
            Err(failure) => Err((name, failure)),
            Ok(prepared) => {
                Ok(Understood { name, tool: found, prepared, said: input.into_bytes() })
            }
        }
    }

    async fn operate(
        &self,
        tool: Arc<Tool>,
        name: String,
        said: Vec<u8>,
        work: Box<dyn Work>,
        words: Vec<Text>,
        asked: Invocation,
    ) -> Option<Observation> {
        let request = Request { args: words, ..Request::default() };
        let Invocation { peer, pieces, notices, gone, tell, .. } = asked;
        let tell = tell.map(|Tell(tell)| {
            let name = name.clone();
            Box::new(move |done| tell(observed(name, done))) as TellOperated
        });
        let operating = Operating { peer, tool, request, said, work, pieces, notices, gone, tell };
        let done = self.broker.operate(operating).await?;
        Some(observed(name, done))
    }

    fn find(&self, name: &str) -> Option<(Arc<Tool>, Kind)> {
        if let Some(entry) = catalogue::own().find(|entry| entry.name == name) {
            return Some((self.own(name)?, entry.kind));
        }
        Some((self.broker.registry.find(name)?, Kind::Tool))
    }

    /// Whether it is one of the broker's own tools for files, by its own name.
    pub(crate) fn is_for_files(&self, name: &str) -> bool {
        catalogue::own().any(|entry| entry.name == name && matches!(entry.kind, Kind::Files(_)))
    }

    /// Whether it is one of these that reads or writes one file, and no tree of them.
    pub(crate) fn is_short(&self, name: &str) -> bool {
        catalogue::is_short(name)
    }

    /// One of the broker's own tools, where it is served.
    fn own(&self, name: &str) -> Option<Arc<Tool>> {
        let registry = &self.broker.registry;
        registry.builtin(name).filter(|_| registry.options().serves(name))
    }
}

fn observed(tool: String, done: Operated) -> Observation {
    let (output, error) = match done.result {
        Ok(output) => (Some(output), None),
        Err(failure) => (None, Some(failure)),
    };
    Observation {
        success: error.is_none(),
        tool,
        output,
        error,
        duration_ms: done.duration_ms,
        call_id: Some(done.call_id),
    }
}

/// One of the setting's that fits none of the broker's own tools; none of them is `none`.
pub(crate) fn fits_nothing(served: &[String]) -> Option<&String> {
    let fits = |said: &String| {
        let pattern = NamePattern::parse(said);
        let one = |entry: &catalogue::Entry| {
            pattern.as_ref().is_some_and(|pattern| pattern.matches(entry.name.as_ref()))
        };
        said == "none" || catalogue::own().any(one)
    };
    served.iter().find(|said| !fits(said))
}

/// What the broker's own tools are called.
pub(crate) fn own_names() -> String {
    catalogue::own().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

/// The tool that another name means, and its input in its own fields.
pub(crate) fn known_as(name: &str, input: String) -> Result<(String, String), Failure> {
    alias::resolve(name, input, |_| false)
}

/// What a tool is called itself, by that or another name.
pub(crate) fn own_name(name: &str) -> &str {
    alias::own_name(name)
}

/// The fields of another name, each with the tool's own.
pub(crate) fn fields_of(name: &str) -> &'static [(&'static str, &'static str)] {
    alias::fields_of(name)
}

fn unknown(name: &str) -> Failure {
    let name = name.escape_default();
    let message = format!("no such tool: {name}: ask for the list of tools");
    Failure::new(Fault::Broker(Code::UnknownTool), message)
}

/// A word for the audit; nothing where it cannot be one.
fn word(text: &str) -> Option<Text> {
    Text::new(text.as_bytes())
}
