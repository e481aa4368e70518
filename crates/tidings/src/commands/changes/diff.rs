//! The difference between two texts, line by line.

/// One line of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum DiffLine<'a> {
    /// The line stands in both texts.
    Same(&'a str),
    /// The line stands only in the text before.
    Gone(&'a str),
    /// The line stands only in the text of now.
    Come(&'a str),
    /// Lines in both that are not shown.
    Skipped,
}

/// Beyond this many pairs of lines the middle is taken as replaced as a whole.
const MOST: usize = 4_000_000;

/// The difference, with so many lines around each change.
pub(in crate::commands) fn lines<'a>(before: &[&'a str], after: &[&'a str], around: usize) -> Vec<DiffLine<'a>> {
    // What is the same at both ends is set aside: the table below has a cell for each pair of lines.
    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (old, new) = (&before[head..], &after[head..]);
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&old[..old.len() - tail], &new[..new.len() - tail]);
    let mut all: Vec<DiffLine<'a>> = before[..head].iter().map(|line| DiffLine::Same(line)).collect();
    all.extend(middle(old, new));
    all.extend(before[before.len() - tail..].iter().map(|line| DiffLine::Same(line)));
    with_context(&all, around)
}

/// By the longest common subsequence.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<DiffLine<'a>> {
    let mut out = Vec::new();
    if old.len().saturating_mul(new.len()) > MOST {
        out.extend(old.iter().map(|line| DiffLine::Gone(line)));
        out.extend(new.iter().map(|line| DiffLine::Come(line)));
        return out;
    }
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    // Filled from the end, so that the walk below goes forward and prints in order.
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            out.push(DiffLine::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        // On a tie the old line goes first, as in other programs' diffs.
        } else if j == new.len() || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            out.push(DiffLine::Gone(old[i]));
            i += 1;
        } else {
            out.push(DiffLine::Come(new[j]));
            j += 1;
        }
    }
    out
}

/// Leaves out what is far from every change.
fn with_context<'a>(all: &[DiffLine<'a>], around: usize) -> Vec<DiffLine<'a>> {
    let mut near = vec![false; all.len()];
    for (at, _) in all.iter().enumerate().filter(|(_, line)| !matches!(line, DiffLine::Same(_))) {
        let end = (at + around + 1).min(all.len());
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
    if out.last() == Some(&DiffLine::Skipped) {
        out.pop();
    }
    out
}

/// Two versions of one long line, shortened to where they differ.
pub(in crate::commands) fn shortened(before: &str, after: &str, width: usize) -> (String, String) {
    const BEFORE: usize = 24;
    let (a, b): (Vec<char>, Vec<char>) = (before.chars().collect(), after.chars().collect());
    if a.len() <= width && b.len() <= width {
        return (before.to_owned(), after.to_owned());
    }
    let head = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let mut start = head.saturating_sub(BEFORE);
    // Begin with a whole word.
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
    fn taking_the_difference_apart_gives_both_texts_again() {
        let texts: [&[&str]; 6] =
            [&[], &["a"], &["a", "b", "a"], &["b", "a", "b"], &["x", "a", "y", "b", "z"], &["a", "a", "a", "b"]];
        for before in texts {
            for after in texts {
                let all = lines(before, after, usize::MAX / 4);
                if before == after {
                    assert_eq!(all, []);
                    continue;
                }
                let side = |gone: bool| -> Vec<&str> {
                    let pick = |line: &DiffLine<'static>| match *line {
                        DiffLine::Same(text) => Some(text),
                        DiffLine::Gone(text) if gone => Some(text),
                        DiffLine::Come(text) if !gone => Some(text),
                        _ => None,
                    };
                    all.iter().filter_map(pick).collect()
                };
                assert_eq!((side(true), side(false)), (before.to_vec(), after.to_vec()));
            }
        }
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
}
