//! How long the last calls of a server took: one bar each, and what half of them kept to.

use maud::{Markup, html};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The line of calls, the oldest first, in microseconds each. Nothing where there was no call.
pub(crate) fn spark(calls: &[u64]) -> Markup {
    let Some(longest) = calls.iter().max() else { return html! {} };
    let bar = |took: &u64| {
        let height = u128::from(*took) * 7 / u128::from(*longest.max(&1));
        BARS[usize::try_from(height).unwrap_or_default().min(7)]
    };
    let (median, longest) = (duration(median(calls)), duration(*longest));
    let what = if calls.len() == 1 { "the last call".to_owned() } else { format!("the last {} calls", calls.len()) };
    let words = format!("{what}: half within {median}, all within {longest}");
    html! {
        span.nowrap {
            span.spark role="img" aria-label=(words) title=(words) { (calls.iter().map(bar).collect::<String>()) }
            " " span.muted { (median) }
        }
    }
}

fn median(calls: &[u64]) -> u64 {
    let mut sorted = calls.to_vec();
    sorted.sort_unstable();
    sorted.get((sorted.len().max(1) - 1) / 2).copied().unwrap_or_default()
}

fn duration(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{} ms", micros / 1_000, micros % 1_000 / 100),
        10_000..10_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{} s", micros / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_a_bar_and_half_of_them_are_a_number() {
        assert_eq!(spark(&[]).into_string(), "");
        let line = spark(&[0, 1_000, 41_900, 2_000, 80_000]).into_string();
        assert!(line.contains(">▁▁▄▁█<") && line.contains("2.0 ms"), "{line}");
        assert!(line.contains("the last 5 calls: half within 2.0 ms, all within 80 ms"), "{line}");
        assert!(spark(&[0]).into_string().contains("the last call: half within 0.0 ms"));
        assert!(spark(&[u64::MAX, 1]).into_string().contains('█'));
    }
}
