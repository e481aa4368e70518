//! The difference between two texts, line by line.

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// One line of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffLine<'a> {
    /// The line stands in both texts.
    Same(&'a str),
    /// The line stands only in the text before.
    Gone(&'a str),
    /// The line stands only in the text of now.
    Come(&'a str),
    /// Lines in both that are not shown.
    Skipped,
}

/// Beyond this many pairs the middle is taken as replaced as a whole: what differs everywhere costs their product.
const MOST_PAIRS: usize = 4_000_000;

/// The difference, with so many lines around each change.
pub fn lines<'a>(before: &[&'a str], after: &[&'a str], around: usize) -> Vec<DiffLine<'a>> {
    let mut all = Vec::with_capacity(before.len().max(after.len()));
    for op in operations(before, after) {
        let (old, new) = (&before[op.old_range()], &after[op.new_range()]);
        if let DiffOp::Equal { .. } = op {
            all.extend(old.iter().map(|line| DiffLine::Same(line)));
        } else {
            all.extend(old.iter().map(|line| DiffLine::Gone(line)));
            all.extend(new.iter().map(|line| DiffLine::Come(line)));
        }
    }
    with_context(&all, around)
}

/// What leads from one row of tokens to another, within bounds.
pub(crate) fn operations(before: &[&str], after: &[&str]) -> Vec<DiffOp> {
    // What is the same at both ends costs nothing, so it does not count.
    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let rest = before[head..].iter().rev().zip(after[head..].iter().rev());
    let tail = rest.take_while(|(a, b)| a == b).count();
    let (old, new) = (before.len() - head - tail, after.len() - head - tail);
    if old.saturating_mul(new) <= MOST_PAIRS {
        return capture_diff_slices(Algorithm::Myers, before, after);
    }
    let equal = |at: usize, other: usize, len| DiffOp::Equal { old_index: at, new_index: other, len };
    let mut all = vec![equal(0, 0, head)];
    // Both in one: gone and come stand together, as in every other difference.
    all.push(DiffOp::Replace { old_index: head, old_len: old, new_index: head, new_len: new });
    all.push(equal(head + old, head + new, tail));
    all
}

/// Leaves out what is far from every change.
fn with_context<'a>(all: &[DiffLine<'a>], around: usize) -> Vec<DiffLine<'a>> {
    let mut near = vec![false; all.len()];
    for (at, _) in all.iter().enumerate().filter(|(_, line)| !matches!(line, DiffLine::Same(_))) {
        let end = at.saturating_add(around).saturating_add(1).min(all.len());
        near[at.saturating_sub(around)..end].fill(true);
    }
    let mut out: Vec<DiffLine<'a>> = Vec::new();
    for (line, near) in all.iter().zip(near) {
        match (near, out.last()) {
            (true, _) => out.push(*line),
            // Neither at the beginning nor twice.
            (false, None | Some(DiffLine::Skipped)) => {}
            (false, Some(_)) => out.push(DiffLine::Skipped),
        }
    }
    // Nor at the end, where nothing follows that it could stand between.
    if out.last() == Some(&DiffLine::Skipped) {
        out.pop();
    }
    out
}

/// Two versions of one long line, shortened to where they differ.
pub fn shortened(before: &str, after: &str, width: usize) -> (String, String) {
    const BEFORE: usize = 24;
    let (a, b): (Vec<char>, Vec<char>) = (before.chars().collect(), after.chars().collect());
    if a.len() <= width && b.len() <= width {
        return (before.to_owned(), after.to_owned());
    }
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let mut start = head.saturating_sub(BEFORE);
    // Begin with a whole word.
    // Not beyond the difference: a word that is longer than the room before it is cut.
    while start > 0 && start < head && a[start - 1] != ' ' {
        start += 1;
    }
    let cut = |chars: &[char]| {
        let lead = if start > 0 { "…" } else { "" };
        let rest = &chars[start.min(chars.len())..];
        let room = width.saturating_sub(lead.chars().count() + 1).max(8);
        let end = if rest.len() > room { "…" } else { "" };
        format!("{lead}{}{end}", rest.iter().take(room).collect::<String>())
    };
    (cut(&a), cut(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_stand_in_order_with_what_is_around_them() {
        let before = ["a", "b", "c", "d", "e", "f", "g"];
        let after = ["a", "b", "x", "d", "e", "f", "g", "h"];
        let expected = [
            DiffLine::Same("b"),
            DiffLine::Gone("c"),
            DiffLine::Come("x"),
            DiffLine::Same("d"),
            DiffLine::Skipped,
            DiffLine::Same("g"),
            DiffLine::Come("h"),
        ];
        assert_eq!(lines(&before, &after, 1), expected);
    }

    #[test]
    fn long_lines_are_shortened_to_where_they_differ() {
        let long = "word ".repeat(40);
        let (old, new) = shortened(&format!("{long}old end"), &format!("{long}new end {long}"), 40);
        assert_eq!(old, "…word word word word old end");
        assert!(new.starts_with("…word word word word new end word") && new.ends_with('…'), "{new}");
        assert_eq!(new.chars().count(), 40);
        assert_eq!(shortened("short", "shorter", 40), ("short".into(), "shorter".into()));
    }

    #[test]
    fn what_differs_everywhere_is_replaced_as_a_whole() {
        let (old, new): (Vec<String>, Vec<String>) =
            (0..3_000).map(|n| (format!("old {n}"), format!("new {n}"))).unzip();
        let side = |side: &'static str, all: &[String]| -> Vec<&'static str> {
            let mut out = vec!["head"];
            out.extend(all.iter().map(|line| &*line.clone().leak()));
            out.push(side);
            out.push("tail");
            out
        };
        let all = lines(&side("x", &old), &side("y", &new), usize::MAX);
        assert_eq!(all.len(), 1 + 3_001 + 3_001 + 1);
        assert_eq!((all[0], all[6_003]), (DiffLine::Same("head"), DiffLine::Same("tail")));
    }
}
