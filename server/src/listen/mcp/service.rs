//! One session of a client.
//!
//! Owns: what the session knows: how loud it wants to be told, where its client works,
//! that its client is told of other tools. Must not: outlive it. There is one of these for
//! each session, so nothing of one client's can reach another.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, LoggingLevel, NumberOrString, PaginatedRequestParams,
    ProgressToken, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, Peer, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::told::{TOKEN, Told};
use super::way::{Asked, Seen, Visitor, Way};
use super::{resources, roots::Roots, tools};
use crate::agent::{fields_of, own_name};

/// What calls have told and the client has not taken.
const TOLD: usize = 16;
/// How long a client may take to say where it works.
const PATIENCE: Duration = Duration::from_secs(10);

const INSTRUCTIONS: &str = "Tools that work in a shared workspace. Paths are relative to it. \
    What is refused says why and what to do instead; a call that waits for a person's approval \
    says so.";

/// A session.
#[derive(Debug)]
pub(super) struct Service<W> {
    way: W,
    of: Arc<Session>,
    /// With the session its watch ends.
    _watch: DropGuard,
}

#[derive(Debug, Default)]
struct Session {
    level: Mutex<Option<LoggingLevel>>,
    roots: Roots,
    /// Tools whose input has a directory.
    located: Mutex<HashSet<String>>,
    /// It is told of other tools.
    watched: AtomicBool,
    over: CancellationToken,
}

impl<W: Way> Service<W> {
    /// For one client.
    pub(super) fn new(way: W) -> Service<W> {
        let of = Arc::new(Session::default());
        let watch = of.over.clone().drop_guard();
        Service { way, of, _watch: watch }
    }

    /// The answer of a call, and what it tells on the way.
    async fn called(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        directory: Option<String>,
    ) -> Result<Seen, ErrorData> {
        let (give, mut pieces) = mpsc::channel(TOLD);
        let (notice, mut notices) = mpsc::channel(TOLD);
        let gone = context.ct.child_token();
        let _gone = gone.clone().drop_guard();
        let visitor = visitor(context);
        let calls = visitor.as_ref().map(|visitor| visitor.calls.clone()).unwrap_or_default();
        let token = context.meta.get_progress_token();
        let level = self.of.level(context);
        let errors = (level == Some(LoggingLevel::Debug)).then(|| request.name.to_string());
        if matches!(&token, Some(ProgressToken(NumberOrString::String(text))) if text.len() > TOKEN)
        {
            let message = format!("a progressToken has at most {TOKEN} bytes");
            return Err(ErrorData::invalid_params(message, None));
        }
        let mut input = request.arguments.unwrap_or_default();
        if let Some(directory) = directory {
            input.insert("cwd".to_owned(), directory.into());
        }
        let asked = Asked {
            tool: request.name.into_owned(),
            input,
            pieces: (token.is_some() || errors.is_some()).then_some(give),
            notices: Some(notice),
            gone: gone.clone(),
            visitor,
        };
        let peer = context.peer.clone();
        let mut told = Told { peer, token, lines: wants_lines(level), errors, count: 0 };
        let mut called = std::pin::pin!(self.way.call(asked));
        let seen = loop {
            tokio::select! {
                biased;
                Some(line) = notices.recv() => told.notice(line).await,
                Some(piece) = pieces.recv() => told.piece(&piece).await,
                seen = &mut called => break seen,
                () = calls.cancelled(), if !gone.is_cancelled() => gone.cancel(),
            }
        };
        while let Ok(piece) = pieces.try_recv() {
            told.piece(&piece).await;
        }
        seen.map_err(|message| ErrorData::internal_error(message, None))
    }

    /// The directory for this call, where it names none and takes one.
    async fn directory(&self, request: &CallToolRequestParams) -> Option<String> {
        let name = &*request.name;
        let says =
            |field: &str| request.arguments.as_ref().is_some_and(|input| input.contains_key(field));
        // By another name the field may be called otherwise.
        let mut fields = fields_of(name).iter().filter(|(_, own)| *own == "cwd");
        let named = says("cwd") || fields.any(|(theirs, _)| says(theirs));
        let takes = |name: &str| held(&self.of.located).contains(name);
        if named || !(takes(name) || takes(own_name(name))) {
            return None;
        }
        self.of.roots.directory().await
    }

    /// Asks where the client works, where it can tell.
    fn ask_roots(&self, peer: Peer<RoleServer>) {
        let tells = peer.peer_info().is_some_and(|info| info.capabilities.roots.is_some());
        if !tells {
            return;
        }
        let (way, of) = (self.way.clone(), Arc::clone(&self.of));
        of.roots.ask();
        tokio::spawn(async move {
            let asked = async {
                // Which tools take a directory.
                if let Ok(listed) = way.list().await {
                    of.locate(&listed.tools);
                }
                timeout(PATIENCE, peer.list_roots()).await.ok()?.ok()
            };
            let said = tokio::select! {
                said = asked => said,
                () = of.over.cancelled() => None,
            };
            let roots = said.map(|said| said.roots).unwrap_or_default();
            of.roots.answer(&roots, way.workspaces());
        });
    }

    /// Tells the client whenever the tools are others; once, however often it begins.
    fn watch(&self, peer: Peer<RoleServer>) {
        if self.of.watched.swap(true, Ordering::Relaxed) {
            return;
        }
        let (way, of) = (self.way.clone(), Arc::clone(&self.of));
        tokio::spawn(async move {
            let told = async {
                let Ok(mut listed) = way.list().await else { return };
                loop {
                    listed = way.changed(listed.version).await;
                    of.locate(&listed.tools);
                    if peer.notify_tool_list_changed().await.is_err() {
                        return;
                    }
                }
            };
            tokio::select! {
                () = told => {}
                () = of.over.cancelled() => {}
            }
        });
    }
}

impl Session {
    /// How loud the client wants it; in the newest version it says so with each request, or
    /// wants nothing.
    fn level(&self, context: &RequestContext<RoleServer>) -> Option<LoggingLevel> {
        let said = context.meta.log_level();
        let newest = context.protocol_version().is_some_and(|version| !version.has_initialize());
        if newest { said } else { said.or(*held(&self.level)).or(Some(LoggingLevel::Info)) }
    }

    fn locate(&self, tools: &[rmcp::model::Tool]) {
        let takes = |tool: &&rmcp::model::Tool| {
            let properties = tool.input_schema.get("properties");
            properties.and_then(|all| all.get("cwd")).is_some()
        };
        let names = tools.iter().filter(takes).map(|tool| tool.name.to_string());
        *held(&self.located) = names.collect();
    }
}

impl<W: Way> ServerHandler for Service<W> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_logging()
            .build();
        let name = Implementation::new("tool-server", env!("CARGO_PKG_VERSION"));
        ServerConfig::new(capabilities).with_server_info(name).with_instructions(INSTRUCTIONS)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.ask_roots(context.peer.clone());
        self.watch(context.peer);
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.ask_roots(context.peer);
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *held(&self.of.level) = Some(request.level);
        Ok(())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let silent = |message| ErrorData::internal_error(message, None);
        let listed = self.way.list().await.map_err(silent)?;
        self.of.locate(&listed.tools);
        Ok(ListToolsResult::with_all_items(listed.tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let directory = self.directory(&request).await;
        let located = directory.is_some();
        let again = located.then(|| request.clone());
        let mut seen = self.called(request, &context, directory).await?;
        // A root that the broker cannot open is none: nothing was run.
        let lost = seen.error.as_ref().is_some_and(|error| {
            matches!(error.code.as_str(), "CWD_NOT_FOUND" | "PATH_OUTSIDE_WORKSPACE")
        });
        if let (true, Some(request)) = (lost, again) {
            self.of.roots.forget();
            seen = self.called(request, &context, None).await?;
        }
        Ok(tools::result(seen)?.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let list = |gone, visitor| resources::list(&self.way, cursor.as_deref(), gone, visitor);
        until_taken_back(&context, list).await
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates(&self.way))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let read = |gone, visitor| resources::read(&self.way, &request.uri, gone, visitor);
        Ok(until_taken_back(&context, read).await?.into())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let own = SubscriptionFilter::builder().tools_list_changed().build();
        Some(requested.intersection(&own))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let told = async {
            let Ok(mut listed) = self.way.list().await else { return };
            loop {
                listed = self.way.changed(listed.version).await;
                if context.sink().notify_tool_list_changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = told => {}
            () = context.cancelled() => {}
        }
        Ok(())
    }
}

fn wants_lines(level: Option<LoggingLevel>) -> bool {
    use LoggingLevel::{Debug, Info, Notice};
    matches!(level, Some(Debug | Info | Notice))
}

/// Who asks, where a request by HTTP says it.
fn visitor(context: &RequestContext<RoleServer>) -> Option<Visitor> {
    let head = context.extensions.get::<hyper::http::request::Parts>()?;
    head.extensions.get::<Visitor>().cloned()
}

/// A call that tells nothing meanwhile. It ends when its request is taken back or over, or
/// its session is.
async fn until_taken_back<T, F: Future<Output = T>>(
    context: &RequestContext<RoleServer>,
    call: impl FnOnce(CancellationToken, Option<Visitor>) -> F,
) -> T {
    let visitor = visitor(context);
    let calls = visitor.as_ref().map(|visitor| visitor.calls.clone()).unwrap_or_default();
    let gone = context.ct.child_token();
    let _gone = gone.clone().drop_guard();
    let mut called = std::pin::pin!(call(gone.clone(), visitor));
    tokio::select! {
        biased;
        done = &mut called => return done,
        () = calls.cancelled() => gone.cancel(),
    }
    called.await
}

fn held<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
