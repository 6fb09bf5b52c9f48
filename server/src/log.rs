//! The server's own log, on stderr: text for people on a terminal, JSON lines
//! elsewhere. Written by a thread of its own: a reader that stalls costs log
//! lines, never a call.

use std::io::IsTerminal;

use tracing_appender::non_blocking::{NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Config, LogFormat, LogLevel};

/// Lines that wait for a reader before more are dropped.
const LINES: usize = 16_384;

/// Starts the log; what is returned writes what is left when it is dropped.
pub(crate) fn start(config: &Config) -> WorkerGuard {
    let level = match config.log_level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let terminal = std::io::stderr().is_terminal();
    let text = match config.log_format {
        LogFormat::Auto => terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let (writer, guard) =
        NonBlockingBuilder::default().buffered_lines_limit(LINES).finish(std::io::stderr());
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(writer);
    // It would tell what its clients say, and what they are answered: files.
    let ours = Targets::new().with_default(level).with_target("rmcp", LevelFilter::OFF);
    if text {
        builder.with_ansi(terminal).with_target(false).finish().with(ours).init();
    } else {
        let builder = builder.json().flatten_event(true);
        builder.with_current_span(true).with_span_list(false).finish().with(ours).init();
    }
    guard
}
