//! What follows from a change in tools.d: setups, symlinks, the log; and looks at
//! it on demand.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use crate::broker::Broker;
use crate::config::{Config, WatchMode};
use crate::links;
use crate::metrics::Reload;
use crate::registry::Change;
use crate::registry::watch::{Mode, WatchSettings, watch};

/// Watches tools.d, and answers those who ask for a look.
pub(super) fn keep_registry(
    config: &Config,
    broker: &Arc<Broker>,
    mut reloads: mpsc::Receiver<oneshot::Sender<Value>>,
) {
    let settings = WatchSettings {
        mode: match config.registry.watch {
            WatchMode::Auto => Mode::Auto,
            WatchMode::Inotify => Mode::Inotify,
            WatchMode::Poll => Mode::Poll,
        },
        debounce: config.registry.debounce,
        poll: config.registry.poll,
        rescan: config.registry.rescan,
    };
    let (one, registry) = ((config.clone(), Arc::clone(broker)), Arc::clone(&broker.registry));
    tokio::spawn(async move {
        watch(registry, settings, move |change| changed(&one.0, &one.1, &change)).await;
    });
    let (config, broker) = (config.clone(), Arc::clone(broker));
    tokio::spawn(async move {
        while let Some(answer) = reloads.recv().await {
            let change = broker.registry.rescan();
            changed(&config, &broker, &change);
            let names = |tools: &[Arc<crate::registry::Tool>]| -> Vec<String> {
                tools.iter().map(|tool| tool.name.clone()).collect()
            };
            let problems = &broker.registry.snapshot().problems;
            // Whoever asked may have gone.
            drop(answer.send(json!({
                "ok": problems.is_empty(),
                "added": names(&change.added),
                "changed": names(&change.changed),
                "removed": change.removed,
                "problems": problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
            })));
        }
    });
}

fn changed(config: &Config, broker: &Broker, change: &Change) {
    broker.metrics.reloaded(match change {
        change if change.is_empty() => Reload::Unchanged,
        change if change.problems.is_empty() => Reload::Applied,
        _ => Reload::Problem,
    });
    broker.rates.keep(&broker.registry.snapshot());
    for tool in &change.added {
        info!(tool = tool.name, "added ({})", tool.origin);
    }
    for tool in &change.changed {
        info!(tool = tool.name, "changed ({})", tool.origin);
    }
    for name in &change.removed {
        info!(tool = name, "removed");
    }
    for problem in &change.problems {
        warn!("{problem}");
    }
    broker.setups.start(broker, &change.added);
    keep_links(config, broker);
}

pub(super) fn keep_links(config: &Config, broker: &Broker) {
    let Some(directory) = &config.links else { return };
    let snapshot = broker.registry.snapshot();
    let client = links::client(directory, config.links_client.as_deref());
    match links::sync(directory, &client, snapshot.tools.keys().map(String::as_str)) {
        Ok(linked) => {
            for name in linked.taken {
                warn!(tool = name, directory = %directory.display(), "no link: something else has this name");
            }
        }
        Err(error) => warn!("{error}"),
    }
}
