//! Signatures for calls: a bell in the plan, and whoever answers it while the call
//! runs.
//!
//! Owns: giving a call of a tool with `[signing]` its way to ask, and ending that with
//! the call. Must not: read what is asked; the gate does. Calls of other tools pass by
//! here at no cost.

use std::fmt;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};
use tool_gate::Judge;
use tool_gate::credential::Keeper;
use tool_gate::signing::{Grant, configure, serve};
use tool_protocol::{Code, Refusal};
use tracing::warn;

use crate::exec::{Bell, Plan, Rings};
use crate::registry::Tool;

/// Signatures that one call asks for at the same time; more wait.
const AT_ONCE: usize = 4;

/// This program, which tools that may have something signed must be able to execute.
pub(super) fn own_program() -> Option<PathBuf> {
    std::env::current_exe().ok()
}

/// What signatures are made with.
pub(crate) struct Signing {
    runtime: Option<Handle>,
    /// This program: git starts it in the place of ssh-keygen.
    program: Option<String>,
    keeper: Arc<Keeper>,
}

impl fmt::Debug for Signing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signing").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Signing {
    /// With this keeper of keys.
    pub(crate) fn new(keeper: Arc<Keeper>) -> Signing {
        let program = own_program();
        let program =
            program.and_then(|path| String::from_utf8(path.into_os_string().into_vec()).ok());
        Signing { runtime: Handle::try_current().ok(), program, keeper }
    }

    /// Gives the plan a bell, where its tool may have something signed; `taken` are the
    /// numbers of the call's own descriptors.
    pub(super) fn prepare(
        &self,
        tool: &Tool,
        plan: &mut Plan,
        taken: &[RawFd],
    ) -> Result<(), Refusal> {
        if tool.signing.is_none() {
            return Ok(());
        }
        let Some(program) = &self.program else {
            let message =
                "the broker does not know its own program, which signs: is /proc mounted?";
            return Err(Refusal::new(Code::BadDefinition, message));
        };
        let bell = Bell::new(taken).map_err(|error| {
            Refusal::new(
                Code::SpawnFailed,
                format!("cannot make a way to ask for signatures: {error}"),
            )
        })?;
        configure(&mut plan.environment, program, bell.number());
        plan.bell = Some(bell);
        Ok(())
    }

    /// Answers the bell of a call until what is returned is dropped.
    pub(super) fn serve(&self, tool: &Tool, plan: &Plan, judge: Arc<dyn Judge>) -> Option<Service> {
        let (signing, bell) = (tool.signing.as_ref()?, plan.bell.as_ref()?);
        let runtime = self.runtime.as_ref()?;
        let key = (Arc::clone(&self.keeper), signing.key.clone(), plan.redact.clone());
        let key = Box::new(key);
        match bell.rings(runtime) {
            Ok(rings) => {
                let task = runtime.spawn(answer(rings, Arc::new(Grant { key, judge })));
                Some(Service(task.abort_handle()))
            }
            Err(error) => {
                warn!(%error, tool = tool.name, "nothing can be signed in this call");
                None
            }
        }
    }
}

/// Somebody who answers; gone when this is dropped.
#[derive(Debug)]
pub(super) struct Service(AbortHandle);

impl Drop for Service {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn answer(rings: Rings, grant: Arc<Grant>) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    // With this they end, too.
    let mut under_way = JoinSet::new();
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let Some(stream) = rings.next().await else { break };
        while under_way.try_join_next().is_some() {}
        let grant = Arc::clone(&grant);
        under_way.spawn(async move {
            serve(stream, &grant).await;
            drop(place);
        });
    }
    // Nobody can ask any more; who has asked is answered.
    while under_way.join_next().await.is_some() {}
}
