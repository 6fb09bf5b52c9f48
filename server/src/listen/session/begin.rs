//! From a request and the descriptors that came with it to a call of the
//! broker's.
//!
//! Must not: look at a tool's definition.

use std::sync::Arc;

use tokio::sync::mpsc;
use tool_protocol::{Code, Refusal, Request, Stdio, Terminal};

use super::input::Input;
use super::{Ended, Session};
use crate::broker::{Call, Ticket, Unfinished};
use crate::exec::{Hear, Io};
use crate::listen::arrange::arrange;
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
        let tool = match self.context.rules.tool(request.tool.as_ref()) {
            Ok(tool) => tool,
            Err(refusal) => {
                if refusal.code == Code::UnknownTool {
                    self.context.broker.record_stranger(self.peer, &request, refusal.code);
                }
                return Err(refusal);
            }
        };
        if request.stdio != Stdio::Buffered && self.under_way() > 0 {
            let message = "other calls are under way on this connection: open another one";
            return Err(Refusal::new(Code::BadRequest, message));
        }
        if request.stdio != Stdio::Fds && !(descriptors.is_empty() && request.fds.is_empty()) {
            let message = "descriptors came with a request that does not pass any";
            return Err(Refusal::new(Code::BadFds, message));
        }
        let tty = std::mem::take(&mut request.tty);
        let mut events = None;
        let io = match request.stdio {
            Stdio::Buffered if !tty.is_empty() => {
                let message = "a buffered call has no terminal: use stdio \"fds\" or \"stream\"";
                return Err(Refusal::new(Code::BadRequest, message));
            }
            Stdio::Buffered => Io::Captured,
            Stdio::Fds => {
                let (passed, terminals) = arrange(&request.fds, descriptors, tty)?;
                let (to_session, from_call) = mpsc::channel(EVENT_QUEUE);
                (events, self.events) = (Some(to_session), Some(from_call));
                Io::Passed(passed, terminals)
            }
            Stdio::Stream => {
                let terminals = among_three(tty);
                let (to_tool, input) = mpsc::channel(INPUT_QUEUE);
                let (output, from_tool) = mpsc::channel(OUTPUT_QUEUE);
                let (to_session, from_call) = mpsc::channel(EVENT_QUEUE);
                let beside = !terminals.is_empty()
                    && terminals.iter().all(|terminal| !terminal.fds.contains(&0));
                let (to_terminal, typed) =
                    if beside { Some(mpsc::channel(TYPED_QUEUE)).unzip() } else { (None, None) };
                self.input = Some(Input::new(to_tool, to_terminal, request.window));
                (self.output, self.events) = (Some(from_tool), Some(from_call));
                self.streamed = true;
                let credit = request.window.then(|| to_session.clone());
                events = Some(to_session);
                Io::Streamed { input, typed, output, credit, terminals }
            }
        };
        self.exclusive = request.stdio != Stdio::Buffered;
        let (sender, orders) = mpsc::channel(ORDER_QUEUE);
        for order in self.repeated.begin() {
            sender.try_send(order).ok();
        }
        self.orders.push((request.id.clone(), sender));
        let stop = self.context.broker.stop.clone();
        let hear = Hear::new(orders, events, self.gone.clone(), stop);
        let call = Call { peer: self.peer, tool, request, io, known: None };
        let broker = Arc::clone(&self.context.broker);
        self.calls.spawn(async move { Ended::Replied(Box::new(broker.call(call, hear).await)) });
        Ok(())
    }

    /// Goes on with a call that has begun: its descriptors were passed.
    pub(super) fn adopt(&mut self, ticket: Ticket, call: Unfinished) {
        let (to_session, from_call) = mpsc::channel(EVENT_QUEUE);
        let (sender, orders) = mpsc::channel(ORDER_QUEUE);
        self.events = Some(from_call);
        self.orders.push((None, sender));
        (self.exclusive, self.spoken) = (true, true);
        self.reader.rest();
        let stop = self.context.broker.stop.clone();
        let hear = Hear::new(orders, Some(to_session), self.gone.clone(), stop);
        let broker = Arc::clone(&self.context.broker);
        self.calls.spawn(async move {
            Ended::Replied(Box::new(broker.attend(ticket, call, hear).await))
        });
    }
}

/// The terminals of a stream: descriptors above 2 do not exist there.
fn among_three(mut terminals: Vec<Terminal>) -> Vec<Terminal> {
    let mut free = vec![0, 1, 2];
    for terminal in &mut terminals {
        // Each number once, whatever was said.
        terminal.fds.retain(|number| {
            let place = free.iter().position(|other| other == number);
            place.is_some_and(|place| free.remove(place) == *number)
        });
    }
    terminals.retain(|terminal| !terminal.fds.is_empty());
    terminals
}
