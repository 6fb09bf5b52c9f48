//! From a request and the descriptors that came with it to a call of the
//! broker's.
//!
//! Owns: which descriptors pass, under which numbers. Must not: look at a tool's
//! definition.

use std::os::fd::RawFd;
use std::sync::Arc;

use tokio::sync::mpsc;
use tool_protocol::limits::{MAX_FD, MAX_FDS};
use tool_protocol::{Code, Refusal, Request, Stdio, Terminal};

use super::Session;
use super::input::Input;
use crate::broker::Call;
use crate::exec::{Hear, Io};
use crate::os::foreign::Foreign;

/// Pieces of input that wait for the tool, beside those that are held.
const INPUT_QUEUE: usize = 1;
/// What was typed and waits for the terminal.
const TYPED_QUEUE: usize = 16;
/// Chunks of output that wait for the connection.
const OUTPUT_QUEUE: usize = 1;
/// Orders that wait for the call.
const ORDER_QUEUE: usize = 16;
/// What a call tells and waits for the connection.
const EVENT_QUEUE: usize = 16;

impl Session {
    /// Begins a call.
    pub(super) fn start(
        &mut self,
        mut request: Request,
        descriptors: Vec<Foreign>,
    ) -> Result<(), Refusal> {
        request.check()?;
        let tool = self.context.rules.tool(request.tool.as_ref())?;
        if request.stdio != Stdio::Buffered && !self.calls.is_empty() {
            let message = "other calls are under way on this connection: open another one";
            return Err(Refusal::new(Code::BadRequest, message));
        }
        if request.stdio != Stdio::Fds && !(descriptors.is_empty() && request.fds.is_empty()) {
            let message = "descriptors came with a request that does not pass any";
            return Err(Refusal::new(Code::BadFds, message));
        }
        let tty = request.tty.take();
        let mut events = None;
        let io = match request.stdio {
            Stdio::Buffered if tty.is_some() => {
                let message = "a buffered call has no terminal: use stdio \"fds\" or \"stream\"";
                return Err(Refusal::new(Code::BadRequest, message));
            }
            Stdio::Buffered => Io::Captured,
            Stdio::Fds => {
                let (passed, terminal) = arrange(&request.fds, descriptors, tty)?;
                let (to_session, from_call) = mpsc::channel(EVENT_QUEUE);
                (events, self.events) = (Some(to_session), Some(from_call));
                Io::Passed(passed, terminal)
            }
            Stdio::Stream => {
                let terminal = tty.map(among_three).filter(|terminal| !terminal.fds.is_empty());
                let (to_tool, input) = mpsc::channel(INPUT_QUEUE);
                let (output, from_tool) = mpsc::channel(OUTPUT_QUEUE);
                let (to_session, from_call) = mpsc::channel(EVENT_QUEUE);
                let beside = terminal.as_ref().is_some_and(|terminal| !terminal.fds.contains(&0));
                let (to_terminal, typed) =
                    if beside { Some(mpsc::channel(TYPED_QUEUE)).unzip() } else { (None, None) };
                self.input = Some(Input::new(to_tool, to_terminal, request.window));
                (self.output, self.events) = (Some(from_tool), Some(from_call));
                self.streamed = true;
                let credit = request.window.then(|| to_session.clone());
                events = Some(to_session);
                Io::Streamed { input, typed, output, credit, terminal }
            }
        };
        self.exclusive = request.stdio != Stdio::Buffered;
        let (sender, orders) = mpsc::channel(ORDER_QUEUE);
        self.orders.push((request.id.clone(), sender));
        let stop = self.context.broker.stop.clone();
        let hear = Hear::new(orders, events, self.gone.clone(), stop);
        let call = Call { peer: self.peer, tool, request, io, hear };
        let broker = Arc::clone(&self.context.broker);
        self.calls.spawn(async move { broker.call(call).await });
        Ok(())
    }
}

/// The terminals of a stream: descriptors above 2 do not exist there.
fn among_three(mut tty: Terminal) -> Terminal {
    tty.fds.retain(|number| *number < 3);
    tty.fds.sort_unstable();
    tty.fds.dedup();
    tty
}

fn bad(message: impl AsRef<str>) -> Refusal {
    Refusal::new(Code::BadFds, message)
}

type Arranged = (Vec<(RawFd, Foreign)>, Option<Terminal>);

/// Each descriptor with its number; and the terminal that stands for those that
/// are one.
fn arrange(
    numbers: &[u32],
    descriptors: Vec<Foreign>,
    tty: Option<Terminal>,
) -> Result<Arranged, Refusal> {
    if numbers.len() != descriptors.len() {
        let came = descriptors.len();
        return Err(bad(format!("{} descriptors were declared, {came} came", numbers.len())));
    }
    let behind = tty.as_ref().map_or(0, |tty| tty.fds.len());
    if numbers.len() + behind > MAX_FDS {
        return Err(bad(format!("a call has at most {MAX_FDS} descriptors")));
    }
    let mut taken: Vec<u32> =
        numbers.iter().chain(tty.iter().flat_map(|tty| &tty.fds)).copied().collect();
    taken.sort_unstable();
    if let Some(number) = taken.iter().find(|number| **number > MAX_FD) {
        return Err(bad(format!("descriptor {number} is above {MAX_FD}")));
    }
    if let Some([number, _]) = taken.array_windows().find(|[one, next]| one == next) {
        return Err(bad(format!("descriptor {number} was declared twice")));
    }
    let mut tty = tty;
    let mut passed = Vec::with_capacity(numbers.len());
    for (number, descriptor) in numbers.iter().zip(descriptors) {
        if descriptor.is_terminal() {
            // Whoever knows terminals gets one of ours in its place.
            let Some(tty) = &mut tty else {
                let message = "a terminal is not handed to a tool: repeat with stdio \"stream\"";
                return Err(Refusal::new(Code::UseStream, message));
            };
            tty.fds.push(*number);
        } else if descriptor.may_pass()
            && let Ok(number) = RawFd::try_from(*number)
        {
            passed.push((number, descriptor));
        }
    }
    Ok((passed, tty.filter(|tty| !tty.fds.is_empty())))
}
