//! Job control: the tool stops and the client with it; both go on; the terminal
//! goes from one to the other and back.
//!
//! The shell that started the client knows only the client. Whatever stops the
//! tool has to stop the client, and when the shell lets the client go on, the
//! tool has to. Must not: leave a terminal changed while the client is stopped.

use crate::call::{Call, Path, QUERY};
use crate::os::{self, Poll};
use crate::signals::{self, CONT, TSTP, TTIN, TTOU};
use crate::terminal::{self, Place};

/// The most that is still shown of a terminal's output once the call is over:
/// whoever keeps writing to it does not hold the client.
const LAST_OUTPUT: usize = 1 << 20;

impl Call<'_, '_> {
    /// The tool runs, with a terminal: it gets the caller's, if it should have it
    /// from the start.
    pub(crate) fn begin(&mut self) {
        if !self.begun {
            self.begun = true;
            self.lend_or_resize();
        }
    }

    /// The tool was stopped by that signal.
    pub(crate) fn stopped(&mut self, signal: u8) {
        let raw = match self.main() {
            Some(_) if matches!(signal, TTIN | TTOU) => return self.wants_terminal(signal),
            main => main.is_some_and(|terminal| terminal.held && terminal.raw),
        };
        // What a key does, it does to all that the shell started together; a stop
        // that was handed on has reached the others already.
        self.stop(signal, raw && signal == TSTP && !self.stopping);
        self.go_on(true);
    }

    /// Stops the client as it would have been stopped by itself.
    pub(crate) fn stop_alone(&mut self) {
        self.stop(TSTP, false);
        self.go_on(true);
    }

    /// Stops until somebody lets the client go on; false if nothing stopped it.
    fn stop(&mut self, signal: u8, group: bool) -> bool {
        self.show_rest(false);
        self.out.send(self.socket);
        self.stopping = false;
        os::restore();
        os::stop(signal, group, self.signals.ours())
    }

    /// The client runs again, and so does the tool: with the terminal, if it had
    /// it and this is its foreground; else behind.
    pub(crate) fn go_on(&mut self, tell: bool) {
        if self.begun {
            self.lend_or_resize();
        }
        if tell {
            self.let_go_on();
        }
    }

    /// Tells the tool to go on, and asks for a word when that is done.
    fn let_go_on(&mut self) {
        self.hand_on(CONT);
        if self.begun {
            self.out.text(QUERY);
            self.settling = true;
        }
    }

    fn lend_or_resize(&mut self) {
        let others = self.terminals.iter_mut().filter(|terminal| !terminal.controlling);
        others.filter(|terminal| terminal.held).for_each(|terminal| terminal.take(false));
        if self.main().is_some_and(|terminal| terminal.held) {
            self.lend();
        } else {
            self.resize();
        }
    }

    /// The tool reads its terminal or changes its modes, from behind. It may, if
    /// the client might; else the client is stopped as the tool was, and asked
    /// again when it goes on.
    fn wants_terminal(&mut self, signal: u8) {
        let mut place = self.place();
        if place == Place::Behind {
            let stopped = self.stop(signal, true);
            place = self.place();
            if place == Place::Behind && !stopped {
                // An orphaned group: nobody can ever bring it to the front.
                place = Place::Gone;
            }
        }
        match place {
            Place::Front => {
                self.lend();
            }
            // The tool tries again, and is stopped again.
            Place::Behind => {}
            // There is nothing to be had: the tool goes on, and finds the end.
            Place::Gone => {
                self.end_keys();
                self.out.text("{\"foreground\":true}");
            }
        }
        self.let_go_on();
    }

    fn place(&mut self) -> Place {
        self.main().map_or(Place::Gone, |terminal| terminal.place())
    }

    /// Gives the tool the terminal, if this is still its foreground; else takes
    /// it away.
    fn lend(&mut self) {
        let here = matches!(self.path, Path::Pty(_));
        let place = self.place();
        let Some(terminal) = self.main() else { return };
        match place {
            Place::Front => {
                terminal.take(here);
                self.out.text("{\"foreground\":true}");
            }
            Place::Behind => {
                terminal.held = false;
                self.out.text("{\"foreground\":false}");
            }
            Place::Gone => return,
        }
        self.resize();
    }

    /// Tells the tool's terminals how large the caller's are; where there is none,
    /// there is nobody to tell.
    pub(crate) fn resize(&mut self) {
        match &self.path {
            Path::Passed => {}
            Path::Pty(ptys) => {
                for (pty, terminal) in ptys.iter().zip(&*self.terminals) {
                    pty.resize(terminal);
                }
            }
            Path::Stream(_) => {
                let Some(window) = self.main().and_then(|main| main.window()) else { return };
                self.out.object(&|writer| {
                    writer.raw(b"{\"resize\":{");
                    terminal::size(window, writer);
                    writer.raw(b"}}");
                });
            }
        }
    }

    /// No more keys come from the caller's terminal.
    fn end_keys(&mut self) {
        let end = self.main().map_or(4, |terminal| terminal.end_of_input());
        match &mut self.path {
            Path::Passed => {}
            Path::Pty(ptys) => {
                for (pty, terminal) in ptys.iter_mut().zip(&*self.terminals) {
                    if terminal.controlling {
                        pty.end_keys(end);
                    }
                }
            }
            Path::Stream(stream) => stream.end_keys(&mut self.out, end),
        }
    }

    /// Shows what the tool has written to its terminal up to now. A signal ends
    /// that: at the end of a call one that would have ended the tool, else any.
    pub(crate) fn show_rest(&mut self, last: bool) {
        let Path::Pty(ptys) = &mut self.path else { return };
        for (pty, terminal) in ptys.iter_mut().zip(&*self.terminals) {
            let mut left = LAST_OUTPUT;
            while left > 0 || !pty.is_shown() {
                if pty.is_shown() {
                    let count = pty.take_output(terminal);
                    if count == 0 {
                        break;
                    }
                    left = left.saturating_sub(count);
                    // Perhaps there is nobody to show it to.
                    continue;
                }
                let signals = self.signals.fd().unwrap_or(-1);
                let mut polls = [pty.screen_poll(terminal), Poll::new(signals, Poll::READ)];
                if os::poll(&mut polls, None, None).is_err() {
                    return;
                }
                let [screen, signal] = polls;
                if signal.is(Poll::READ) {
                    let came = if last { self.signals.next() } else { None };
                    if came.is_none_or(|signal| signals::ends(signal) && !os::ignored(signal)) {
                        return;
                    }
                }
                if screen.is(Poll::WRITE) {
                    pty.show(terminal);
                }
            }
        }
    }
}
