//! What a run found: rows, and the table, JSON and Markdown made of them.

use serde::Serialize;
use serde_json::Value;

use crate::machine::MachineFacts;

/// In what a row is measured.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowMeasure {
    RequestsPerSecond,
    MedianMicros,
    Megabytes,
    Milliseconds,
    Nanoseconds,
    Kibibytes,
    Bytes,
    Count,
    /// A number from 0 to 1.
    Share,
}

/// What the verdict of a row must be.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowTarget {
    /// The ratio to the baseline, at least.
    RatioAtLeast(f64),
    /// The ratio to the baseline, at most.
    RatioAtMost(f64),
    /// The gateway may use this many megabytes, at most.
    MegabytesAtMost(f64),
    /// Each client may cost this many kibibytes, at most.
    KibibytesAtMost(f64),
    /// Each may take this many bytes, at most.
    BytesAtMost(f64),
    /// So many, at most.
    CountAtMost(f64),
    /// It may take this many milliseconds, whatever the baseline takes.
    MillisecondsAtMost(f64),
    /// It may take this many nanoseconds.
    NanosecondsAtMost(f64),
    /// A number from 0 to 1 that must be reached.
    ShareAtLeast(f64),
    /// Milliseconds beyond the baseline, at most.
    ExtraMillisecondsAtMost(f64),
    /// Megabytes beyond the baseline, at most.
    ExtraMegabytesAtMost(f64),
    /// So many beyond the baseline, at most.
    ExtraCountAtMost(f64),
}

/// One target and what was measured for it.
#[derive(Debug, Serialize)]
pub(crate) struct ReportRow {
    pub(crate) case: u8,
    pub(crate) what: String,
    pub(crate) measure: RowMeasure,
    pub(crate) target: RowTarget,
    /// Medians over the repetitions.
    pub(crate) baseline: Option<f64>,
    pub(crate) gateway: Option<f64>,
    /// The number that is held against the target: the median of each repetition's own.
    pub(crate) verdict: Option<f64>,
    pub(crate) ok: bool,
    /// Each repetition in full.
    pub(crate) samples: Vec<Value>,
    /// Why it failed where numbers do not say it.
    pub(crate) note: Option<String>,
}

/// One repetition in numbers.
pub(crate) struct BenchSample {
    pub(crate) baseline: Option<f64>,
    pub(crate) gateway: Option<f64>,
    pub(crate) full: Value,
}

impl RowTarget {
    fn verdict(self, baseline: Option<f64>, gateway: Option<f64>) -> Option<f64> {
        match self {
            Self::RatioAtLeast(_) | Self::RatioAtMost(_) => Some(gateway? / baseline?),
            Self::MegabytesAtMost(_)
            | Self::KibibytesAtMost(_)
            | Self::BytesAtMost(_)
            | Self::CountAtMost(_)
            | Self::MillisecondsAtMost(_)
            | Self::NanosecondsAtMost(_)
            | Self::ShareAtLeast(_) => gateway,
            Self::ExtraMillisecondsAtMost(_) | Self::ExtraMegabytesAtMost(_) | Self::ExtraCountAtMost(_) => {
                Some(gateway? - baseline?)
            }
        }
    }

    fn holds(self, verdict: f64) -> bool {
        match self {
            Self::RatioAtLeast(least) | Self::ShareAtLeast(least) => verdict >= least,
            Self::RatioAtMost(most)
            | Self::MegabytesAtMost(most)
            | Self::KibibytesAtMost(most)
            | Self::BytesAtMost(most)
            | Self::CountAtMost(most)
            | Self::MillisecondsAtMost(most)
            | Self::NanosecondsAtMost(most)
            | Self::ExtraMillisecondsAtMost(most)
            | Self::ExtraMegabytesAtMost(most)
            | Self::ExtraCountAtMost(most) => verdict <= most,
        }
    }

    fn text(self) -> String {
        match self {
            Self::RatioAtLeast(least) | Self::ShareAtLeast(least) => format!("≥ {least}"),
            Self::RatioAtMost(most) => format!("≤ {most}"),
            Self::MegabytesAtMost(most) => format!("≤ {most} MB"),
            Self::KibibytesAtMost(most) => format!("≤ {most} KiB"),
            Self::BytesAtMost(most) => format!("≤ {most} B"),
            Self::CountAtMost(most) => format!("≤ {most}"),
            Self::MillisecondsAtMost(most) => format!("≤ {most} ms"),
            Self::NanosecondsAtMost(most) => format!("≤ {most} ns"),
            Self::ExtraMillisecondsAtMost(most) => format!("≤ +{most} ms"),
            Self::ExtraMegabytesAtMost(most) => format!("≤ +{most} MB"),
            Self::ExtraCountAtMost(most) => format!("≤ +{most}"),
        }
    }
}

impl ReportRow {
    /// Judges the repetitions. A note is a failure that the numbers can not show.
    pub(crate) fn judge(
        case: u8,
        what: String,
        measure: RowMeasure,
        target: RowTarget,
        samples: Vec<BenchSample>,
        note: Option<String>,
    ) -> Self {
        // The median of ratios, not the ratio of medians: both sides of a repetition ran under the same load.
        let verdict = median(samples.iter().filter_map(|sample| target.verdict(sample.baseline, sample.gateway)));
        Self {
            case,
            what,
            measure,
            target,
            baseline: median(samples.iter().filter_map(|sample| sample.baseline)),
            gateway: median(samples.iter().filter_map(|sample| sample.gateway)),
            verdict,
            ok: note.is_none() && verdict.is_some_and(|verdict| target.holds(verdict)),
            samples: samples.into_iter().map(|sample| sample.full).collect(),
            note,
        }
    }

    fn cells(&self) -> [String; 6] {
        let number = |value: Option<f64>| match (value, self.measure) {
            (None, _) => "–".to_owned(),
            (Some(value), RowMeasure::RequestsPerSecond) => format!("{value:.0}/s"),
            (Some(value), RowMeasure::MedianMicros) => format!("{value:.0} µs"),
            (Some(value), RowMeasure::Megabytes) => format!("{value:.1} MB"),
            (Some(value), RowMeasure::Milliseconds) if value < 10.0 => format!("{value:.2} ms"),
            (Some(value), RowMeasure::Milliseconds) => format!("{value:.1} ms"),
            (Some(value), RowMeasure::Nanoseconds) => format!("{value:.0} ns"),
            (Some(value), RowMeasure::Kibibytes) => format!("{value:.1} KiB"),
            (Some(value), RowMeasure::Bytes) => format!("{value:.0} B"),
            (Some(value), RowMeasure::Count) => format!("{value:.0}"),
            (Some(value), RowMeasure::Share) => format!("{value:.3}"),
        };
        let verdict = match (self.verdict, self.target) {
            (None, _)
            | (
                Some(_),
                RowTarget::MegabytesAtMost(_)
                | RowTarget::KibibytesAtMost(_)
                | RowTarget::BytesAtMost(_)
                | RowTarget::CountAtMost(_)
                | RowTarget::MillisecondsAtMost(_)
                | RowTarget::NanosecondsAtMost(_)
                | RowTarget::ShareAtLeast(_),
            ) => "–".to_owned(),
            (Some(verdict), RowTarget::ExtraMillisecondsAtMost(_)) => format!("{verdict:+.1} ms"),
            (Some(verdict), RowTarget::ExtraMegabytesAtMost(_)) => format!("{verdict:+.2} MB"),
            (Some(verdict), RowTarget::ExtraCountAtMost(_)) => format!("{verdict:+.0}"),
            (Some(verdict), _) => format!("{verdict:.2}"),
        };
        [
            self.what.clone(),
            number(self.baseline),
            number(self.gateway),
            verdict,
            self.target.text(),
            if self.ok { "yes" } else { "NO" }.to_owned(),
        ]
    }
}

/// The median; with an even count the mean of the middle two.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    // A repetition without a number (0/0) says nothing.
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

const HEADS: [&str; 6] = ["what", "floor", "gateway", "ratio", "target", "ok"];

/// The table as Markdown, aligned so that a terminal shows it well too.
pub(crate) fn table(rows: &[ReportRow]) -> String {
    let mut lines = vec![HEADS.map(str::to_owned)];
    lines.extend(rows.iter().map(ReportRow::cells));
    let widths: Vec<usize> = (0..HEADS.len())
        .map(|column| {
            let width = |line: &[String; 6]| line[column].chars().count();
            lines.iter().map(width).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(&format!("| {cell:<width$} "));
        }
        text.push_str("|\n");
        if index == 0 {
            for width in &widths {
                text.push_str(&format!("|{}", "-".repeat(width + 2)));
            }
            text.push_str("|\n");
        }
    }
    text.push_str(&notes(rows));
    text
}

/// Each note once, after the rows it belongs to.
fn notes(rows: &[ReportRow]) -> String {
    let mut notes: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in rows {
        let Some(note) = row.note.as_deref() else {
            continue;
        };
        match notes.iter_mut().find(|(known, _)| *known == note) {
            Some((_, whose)) => whose.push(&row.what),
            None => notes.push((note, vec![&row.what])),
        }
    }
    notes.into_iter().map(|(note, whose)| format!("\n{}: {note}\n", whose.join("; "))).collect()
}

/// The whole run as JSON.
pub(crate) fn json(machine: &MachineFacts, rows: &[ReportRow], seconds: f64, repeat: usize) -> Value {
    serde_json::json!({
        "machine": machine,
        "seconds": seconds,
        "repetitions": repeat,
        "rows": rows,
    })
}

/// The page for the documentation.
pub(crate) fn markdown(machine: &MachineFacts, rows: &[ReportRow], seconds: f64, repeat: usize) -> String {
    format!(
        "# Benchmarks\n\n\
         Made by `cargo xtask bench --markdown docs/benchmarks.md`. Every number is the median of {repeat} \
         repetitions of {seconds} s; in each repetition the baseline (\"floor\") and the gateway take turns on \
         the same machine, and the ratio is the median of the repetitions' own ratios. The gateway is built as it is released: trained \
         ([ADR 95](adr/0095-releases-are-trained.md)).\n\n\
         {table}\n\
         - Calls: the floor is a bare hyper reverse proxy in front of the same echo server. A legacy client has a \
         legacy server behind it, a modern client a modern one.\n\
         - Tool list: the floor is a fixed body of the same size from the same HTTP stack (axum on hyper).\n\
         - Memory: VmRSS of the gateway process alone, idle, with its servers connected; then its RssAnon, which leaves out the program's text (ADR 36).\n\
         - Start: the floor is the same server started alone and asked directly; the gateway's time counts from \
         the start of its process. The row shows the server with the greatest difference.\n\
         - Commits: the floor is the same commit in a catalogue of 50 servers; the hub alone, in this process.\n\
         - Signals: no quiet window; the floor is one `tools/list` asked of the server directly.\n\
         - Listeners: what the gateway grows by, divided; one change must reach each of them exactly once.\n\
         - Adding and removing: beside 100 servers, with 1,000 clients of which each is told; the floor is the start of that \
         server alone. Reloading: a file of 500 servers.\n\
         - Fan-out: the floor is a bare hyper server that writes the same bytes to as many streams; both to the same readers, \
         each of which must hear of every change exactly once. Memory as for the listeners, after all changes.\n\
         - Updates: no quiet window, a quarter of the clients does not read; each resource must be announced in each round, \
         and to those who did not read at the end.\n\
         - Busy file: quiet 500 ms, at most 2 s; the last notice must follow the last change.\n\
         - Idle watches: moments of 100 ms in which any thread of the gateway woke up; the floor is a gateway that \
         follows nothing, for a URL together with a program that only polls it as often. One moment more or less in 20 s \
         can not be told from chance.\n\
         - Scripts: the floor is the same script started by this program and waited for, and mcp-bash with the same project; \
         then from the start of the process, and from a saved file with the quiet window of 250 ms as its floor.\n\
         - Audit and quotas: a gateway without both takes turns with one that has them, six of 1.5 s in each repetition. Approval: one of 10,000 tools says something else and then what it \
         said before; the floor is a server without `approve`. Verify: from the start of the command to its end.\n\
         - The page: each screen and filter is asked for 300 times on one connection, from the request to the last byte; the row is the \
         slowest of them. The clients listen, the log is filled before the start. The CPU time is that of all threads of the gateway \
         while a screen is asked for, divided by the times. What is remembered of clients is weighed in a process that holds nothing else; \
         calls and idle memory are held against a gateway with `[page] enabled = false`, calls while a page is open.\n\
         - Rules: the hub alone, in this process. A decision is what a call asks: the view of its class, its name in it, the right to use it. \
         A view is made with the hashes of its lists; everybody's lists are rendered before.\n\
         - Tokens: a gateway without `[auth]` takes turns with one that has a token of 900 bytes and rules about others; turns as before; clients show the token to both. \
         Instructions are counted by `conformance/call_instructions.py` (ADR 82).\n\
         - Cluster: replicas are processes on one NATS server, all on this machine. A call: the floor is one request and its answer at NATS (core, \
         two connections of a process with the gateway's kind of runtime, p50), the other number is the p50 at a replica that does not run the server less that at the one that does. 64 MiB: the \
         floor is the same call at the replica that runs it. Notices: no quiet window, from the server's word that its tools changed, so looking at \
         it is in it; each client must hear of each change exactly once. Stale lists: each of 300 clients lists at another replica than the one that \
         told it, at once. A killed replica: 404 from the request, errors from the death of the process; requests at that very moment are shown in the \
         JSON alone. NATS gone: servers that moved, clients that were not told of a change meanwhile or do not find it, and calls of both eras that \
         were under way at another replica and were not answered. Cut off: a proxy that carries nothing, from its end until all replicas are at the \
         same end of the log; their digests are compared after. Joining: from the start of a second replica's process to its being ready.\n\
         - Search: {search}\n\n\
         Load client, proxies and servers are processes of their own and share the machine:\n\n\
         | | |\n|---|---|\n\
         | CPU | {cpu}, {cores} cores |\n\
         | memory | {memory} MB |\n\
         | kernel | {kernel} |\n\
         | compiler | {rustc} |\n\
         | CPU used by others just before | {busy:.0} % |\n",
        table = table(rows),
        search = "the index alone, in this process: 5,000 tools of 50 servers, near-duplicates of the 361 of the relevance \
            benchmark (`crates/search/relevance`), asked all its 250 queries; recall@5 and MRR are over the 361.",
        cpu = machine.cpu,
        cores = machine.cores,
        memory = machine.memory_mb,
        kernel = machine.kernel,
        rustc = machine.rustc,
        busy = machine.busy_before * 100.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(baseline: f64, gateway: Option<f64>) -> BenchSample {
        BenchSample { baseline: Some(baseline), gateway, full: Value::Null }
    }

    fn row(target: RowTarget, samples: Vec<BenchSample>, note: Option<String>) -> ReportRow {
        ReportRow::judge(1, "x".into(), RowMeasure::RequestsPerSecond, target, samples, note)
    }

    #[test]
    fn the_median_ratio_decides_and_not_the_ratio_of_medians() {
        let samples = vec![sample(100.0, Some(70.0)), sample(200.0, Some(100.0)), sample(50.0, Some(50.0))];
        let row = row(RowTarget::RatioAtLeast(0.67), samples, None);
        assert_eq!(row.verdict, Some(0.7));
        assert!(row.ok);
    }

    #[test]
    fn a_row_without_the_gateway_or_with_a_note_is_a_miss() {
        let target = RowTarget::RatioAtLeast(0.67);
        assert!(!row(target, vec![sample(100.0, None)], None).ok);
        let note = Some("refused".to_owned());
        assert!(!row(target, vec![sample(100.0, Some(100.0))], note).ok);
    }
}
