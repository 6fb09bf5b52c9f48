//! `setup [TOOL…]`: run setup.sh now, in the foreground. For images and for
//! trying a definition out.

use std::ffi::OsString;
use std::process::ExitCode;

use tokio::io::Interest;

use super::{complain, fail, say};
use crate::app::{AppError, For, build, open_ends};
use crate::broker::run_in_foreground;
use crate::config::Config;
use crate::os::readiness;
use crate::os::signals::Signals;

/// Exit 1 where one failed or a name is unknown.
pub(super) fn run(config: &Config, names: &[OsString]) -> ExitCode {
    let signals = match open_ends() {
        Ok(signals) => signals,
        Err(error) => return fail(&error),
    };
    let _log = crate::log::start(config);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    match runtime.block_on(run_all(config, names, signals)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => fail(&error),
    }
}

async fn run_all(config: &Config, names: &[OsString], signals: Signals) -> Result<bool, AppError> {
    let broker = build(config, For::Setup)?.broker;
    let signals = readiness::watch(signals, Interest::READABLE)?;
    let snapshot = broker.registry.snapshot();
    let mut well = true;
    for name in names {
        if !name.to_str().is_some_and(|name| snapshot.tools.contains_key(name)) {
            complain(&format!("no such tool: {}", name.as_encoded_bytes().escape_ascii()));
            well = false;
        }
    }
    let wanted: Vec<_> = snapshot
        .tools
        .values()
        .filter(|tool| names.is_empty() || names.iter().any(|name| *name == *tool.name))
        .cloned()
        .collect();
    let reaping = async {
        while let Ok(mut guard) = signals.readable().await {
            while let Ok(Some(_)) = signals.get_ref().next() {}
            while broker.executor.reaper().collect().is_some() {}
            guard.clear_ready();
        }
    };
    let tell = |name: &str, result: Result<(), &str>| match result {
        Ok(()) => say(&format!("{name}: done")),
        Err(why) => say(&format!("{name}: failed: {why}")),
    };
    tokio::select! {
        went = run_in_foreground(&broker, &wanted, tell) => Ok(well && went),
        () = reaping => Ok(false),
    }
}
