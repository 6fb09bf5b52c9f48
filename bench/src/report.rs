//! The results as a Markdown file.
//!
//! Owns: bench/RESULTS.md but for the part below the marker, which people write.

use std::fmt::Write as _;

use crate::results::{Crowd, Results, Table};
use crate::site::{FILES, PATH, Work};
use crate::stats::{median, quantile, ratio};
use crate::targets;
use crate::way::{BROKER, DIRECT};

/// What follows it in the file is kept.
const MARKER: &str = "<!-- By hand from here on: scripts/bench.sh keeps it. -->";

/// The whole file, given the one that is there.
pub fn render(results: &Results, old: &str) -> String {
    let mut out = String::new();
    write(&mut out, results).expect("a string takes everything");
    out + MARKER + kept(old)
}

fn kept(old: &str) -> &str {
    old.split_once(MARKER).map_or("\n", |(_, kept)| kept)
}

fn write(out: &mut String, results: &Results) -> std::fmt::Result {
    let command = if results.quick { "scripts/bench.sh quick" } else { "scripts/bench.sh" };
    writeln!(out, "# What a call costs\n\nWritten by\n\n    {command}\n")?;
    if results.quick {
        writeln!(
            out,
            "**A quick run**: few rounds, wide intervals. `scripts/bench.sh` is the full one.\n"
        )?;
    }
    for (what, value) in &results.machine.lines {
        writeln!(out, "- {what}: {value}")?;
    }
    writeln!(
        out,
        "\nAll ways take turns in one run: each round has every way do the same work once, in\n\
         an order that changes from round to round. In brackets stands the 95 % interval of\n\
         the ratio of medians, by resampling rounds. Trust the ratios, not the microseconds.\n\
         `git status` looks at {FILES} files.\n\n![The same as a picture](results.svg)\n"
    )?;
    ways(out, results)?;
    targets_table(out, results)?;
    writeln!(out, "## One call at a time\n")?;
    for table in &results.singles {
        single(out, table)?;
    }
    gated(out, results)?;
    writeln!(
        out,
        "## Many callers at once\n\nCalls a second that ended well: the median of the slices of time (lowest to highest).\n"
    )?;
    for crowd in &results.crowds {
        crowd_table(out, crowd)?;
    }
    sizes(out, results)?;
    trees(out, results)
}

fn ways(out: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(
        out,
        "## Who is compared\n\n| way | how | exit code | in the tool's environment beside PATH and HOME |\n| --- | --- | --- | --- |"
    )?;
    for column in &results.columns {
        let code = if column.exit_code { "yes" } else { "no" };
        let more =
            if column.more.is_empty() { "nothing".to_owned() } else { column.more.join(", ") };
        writeln!(out, "| {} | {} | {code} | {more} |", column.name, column.how)?;
    }
    writeln!(
        out,
        "\nThat the same work is compared was looked at before measuring: each way showed its\n\
         directory and its environment (`env`), and what git says; a way that differs is left\n\
         out. Everywhere HOME is the same empty directory, PATH is `{PATH}`\n\
         unless the table says otherwise, and no LANG is set (with one, git loads a locale).\n\
         `git` is /usr/bin/git. The servers run in the session of the bench.\n"
    )?;
    if results.left_out.is_empty() {
        writeln!(out, "Nothing was left out.\n")?;
    }
    for (what, why) in &results.left_out {
        writeln!(out, "- **Left out: {what}**: {why}")?;
    }
    if !results.left_out.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

fn targets_table(out: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(
        out,
        "## Against the targets\n\n| what | target | stretch | measured | |\n| --- | --- | --- | --- | --- |"
    )?;
    for line in targets::lines(results) {
        let targets::Line { what, target, stretch, measured, verdict } = line;
        writeln!(out, "| {what} | {target} | {stretch} | {measured} | {verdict} |")?;
    }
    writeln!(out)
}

fn single(out: &mut String, table: &Table) -> std::fmt::Result {
    let (scale, unit) = if table.work == Work::Bulk { (1e3, "ms") } else { (1e6, "µs") };
    let rounds = table.series.first().map_or(0, |(_, series)| series.took.len());
    let find =
        |way: &str| table.series.iter().find(|(name, _)| *name == way).map(|(_, series)| series);
    writeln!(out, "### `{}`\n\n{rounds} rounds.\n", table.work.name())?;
    writeln!(
        out,
        "| way | median, {unit} | p99, {unit} | of direct (95 %) | of the broker (95 %) | failed |\n| --- | --- | --- | --- | --- | --- |"
    )?;
    for (name, series) in &table.series {
        let of = |way: &str| {
            let other = find(way).filter(|_| *name != way);
            other.map_or_else(
                || "–".to_owned(),
                |other| ratio(&series.took, &other.took).to_string(),
            )
        };
        writeln!(
            out,
            "| {name} | {:.0} | {:.0} | {} | {} | {} |",
            median(&series.took) * scale,
            quantile(&series.took, 0.99) * scale,
            of(DIRECT),
            of(BROKER),
            series.failed
        )?;
    }
    writeln!(out)
}

fn gated(out: &mut String, results: &Results) -> std::fmt::Result {
    if results.gated.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "## Calls that talk to a server\n\n\
         Through the server whose tools are confined: namespaces, a listener, the gate. The forge\n\
         is one on loopback, `git http-backend` behind basic authentication, the same for both ways;\n\
         git itself sends the log-in with each request (`http.extraHeader`), so that neither way is\n\
         refused first. Plain HTTP: over TLS git begins anew for each call, the gate does not.\n\n\
         | what | directly, median, ms | through the gate, median, ms | p99, ms | of direct (95 %) | rounds | failed |\n\
         | --- | --- | --- | --- | --- | --- | --- |"
    )?;
    for row in &results.gated {
        let (direct, broker) = (&row.direct, &row.broker);
        writeln!(
            out,
            "| {} | {:.2} | {:.2} | {:.2} | {} | {} | {} |",
            row.what.name(),
            median(&direct.took) * 1e3,
            median(&broker.took) * 1e3,
            quantile(&broker.took, 0.99) * 1e3,
            ratio(&broker.took, &direct.took),
            broker.took.len(),
            direct.failed + broker.failed
        )?;
    }
    writeln!(out)
}

fn crowd_table(out: &mut String, crowd: &Crowd) -> std::fmt::Result {
    let plural = if crowd.callers == 1 { "caller" } else { "callers" };
    writeln!(out, "### `{}`, {} {plural}\n", crowd.work.name(), crowd.callers)?;
    writeln!(
        out,
        "| way | calls a second | of direct | calls | failed |\n| --- | --- | --- | --- | --- |"
    )?;
    let direct = crowd.storms.iter().find(|(name, _)| *name == DIRECT);
    let direct = direct.map_or(f64::NAN, |(_, storm)| median(&storm.rates));
    for (name, storm) in &crowd.storms {
        let rate = median(&storm.rates);
        let (low, high) = (quantile(&storm.rates, 0.0), quantile(&storm.rates, 1.0));
        let (calls, failed) = (storm.calls, storm.failed);
        writeln!(
            out,
            "| {name} | {rate:.0} ({low:.0} to {high:.0}) | {:.2} | {calls} | {failed} |",
            rate / direct
        )?;
    }
    writeln!(out)
}

fn sizes(out: &mut String, results: &Results) -> std::fmt::Result {
    let (client, memory) = (&results.client, &results.memory);
    writeln!(out, "## The programs themselves\n\n| what | |\n| --- | --- |")?;
    writeln!(out, "| client, release build | {} bytes |", client.bytes)?;
    writeln!(
        out,
        "| page faults of a plain call (vfork, execve, wait4; median of 200) | {:.0} |",
        client.faults
    )?;
    match &client.calls {
        Ok(calls) => writeln!(
            out,
            "| system calls of a plain call, from execve to exit (strace) | {calls} |"
        )?,
        Err(why) => writeln!(out, "| system calls of a plain call | not counted: {why} |")?,
    }
    let kib = |value: Option<u64>| {
        value.map_or_else(|| "not readable".into(), |kib| format!("{kib} KiB"))
    };
    writeln!(
        out,
        "| server, private memory, idle (with what it alone has mapped of its program) | {} |",
        kib(memory.idle)
    )?;
    writeln!(out, "| the same after {} calls | {} |", memory.calls, kib(memory.after))?;
    writeln!(out, "| the same after {} calls | {} |\n", 2 * memory.calls, kib(memory.later))
}

fn trees(out: &mut String, results: &Results) -> std::fmt::Result {
    writeln!(
        out,
        "## How a call's processes are known\n\n`/bin/true` from a bare vfork of a process with 5 MiB, without the broker.\n\n| | median, µs | of plain (95 %) |\n| --- | --- | --- |"
    )?;
    let names = ["plain", "two marked limits", "a subreaper of its own (fork)"];
    for (name, series) in names.iter().zip(&results.trees) {
        let of = ratio(&series.took, &results.trees[0].took);
        writeln!(out, "| {name} | {:.0} | {of} |", median(&series.took) * 1e6)?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::{MARKER, kept};

    #[test]
    fn what_people_wrote_is_kept() {
        let old = format!("old figures\n{MARKER}\nwhy one is missed\n");
        assert_eq!(kept(&old), "\nwhy one is missed\n");
        assert_eq!(kept("a file without it"), "\n");
    }
}
