//! Writing values, always as JSON: what JSON has no word for becomes what `jq` makes of it.

use std::io::{self, Write};

use jaq_json::{Num, Val};

use crate::options::{JsonOptions, OutputLayout};

/// Writes results as they were asked for.
pub(crate) struct ResultPrinter {
    raw: bool,
    join: bool,
    ascii: bool,
    sorted: bool,
    layout: OutputLayout,
}

/// A value on one line.
pub(crate) fn compact(value: &Val) -> Vec<u8> {
    let printer = ResultPrinter { raw: false, join: true, ascii: false, sorted: false, layout: OutputLayout::Compact };
    let mut text = Vec::new();
    // Memory takes everything.
    let _ = printer.print(value, &mut text);
    text
}

impl ResultPrinter {
    pub(crate) fn new(options: &JsonOptions) -> Self {
        Self {
            raw: options.raw_output,
            join: options.join_output,
            ascii: options.ascii_output,
            sorted: options.sort_keys,
            layout: options.layout,
        }
    }

    pub(crate) fn print(&self, value: &Val, output: &mut dyn Write) -> io::Result<()> {
        match value {
            // With `-a`, jq writes a string as JSON even where it is asked for raw.
            Val::TStr(text) | Val::BStr(text) if self.raw && !self.ascii => {
                output.write_all(String::from_utf8_lossy(text).as_bytes())?;
            }
            value => self.value(value, 0, output)?,
        }
        if self.join {
            return Ok(());
        }
        output.write_all(b"\n")
    }

    fn value(&self, value: &Val, depth: usize, output: &mut dyn Write) -> io::Result<()> {
        match value {
            Val::Null => output.write_all(b"null"),
            Val::Bool(value) => write!(output, "{value}"),
            Val::Num(number) => output.write_all(number_text(number).as_bytes()),
            Val::TStr(text) | Val::BStr(text) => self.text(text, output),
            Val::Arr(items) if items.is_empty() => output.write_all(b"[]"),
            Val::Arr(items) => {
                output.write_all(b"[")?;
                for (index, item) in items.iter().enumerate() {
                    self.separate(index, depth + 1, output)?;
                    self.value(item, depth + 1, output)?;
                }
                self.line(depth, output)?;
                output.write_all(b"]")
            }
            Val::Obj(members) if members.is_empty() => output.write_all(b"{}"),
            Val::Obj(members) => {
                let mut members: Vec<(&Val, &Val)> = members.iter().collect();
                if self.sorted {
                    members.sort_by(|one, other| one.0.cmp(other.0));
                }
                output.write_all(b"{")?;
                for (index, (name, member)) in members.into_iter().enumerate() {
                    self.separate(index, depth + 1, output)?;
                    self.name(name, output)?;
                    output.write_all(if self.layout == OutputLayout::Compact { b":" } else { b": " })?;
                    self.value(member, depth + 1, output)?;
                }
                self.line(depth, output)?;
                output.write_all(b"}")
            }
        }
    }

    /// The filter language allows names that JSON does not.
    fn name(&self, name: &Val, output: &mut dyn Write) -> io::Result<()> {
        match name {
            Val::TStr(text) | Val::BStr(text) => self.text(text, output),
            other => self.text(other.to_string().as_bytes(), output),
        }
    }

    fn separate(&self, index: usize, depth: usize, output: &mut dyn Write) -> io::Result<()> {
        if index > 0 {
            output.write_all(b",")?;
        }
        self.line(depth, output)
    }

    fn line(&self, depth: usize, output: &mut dyn Write) -> io::Result<()> {
        match self.layout {
            OutputLayout::Compact => Ok(()),
            OutputLayout::Spaces(count) => write!(output, "\n{:1$}", "", depth * count),
            OutputLayout::Tabs => write!(output, "\n{}", "\t".repeat(depth)),
        }
    }

    fn text(&self, text: &[u8], output: &mut dyn Write) -> io::Result<()> {
        let text = serde_json::Value::from(String::from_utf8_lossy(text)).to_string();
        if !self.ascii {
            return output.write_all(text.as_bytes());
        }
        let mut units = [0; 2];
        for character in text.chars() {
            if character.is_ascii() {
                write!(output, "{character}")?;
            } else {
                character.encode_utf16(&mut units).iter().try_for_each(|unit| write!(output, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}

/// A number as `jq` writes it: whole numbers without a fraction, no infinities.
fn number_text(number: &Num) -> String {
    match number {
        Num::Float(value) if value.is_nan() => "null".into(),
        // jq writes the largest number there is, because JSON has no infinity.
        Num::Float(value) if value.is_infinite() => format!("{:e}", f64::MAX.copysign(*value)).replace('e', "e+"),
        // Up to 17 digits jq writes whole numbers without an exponent.
        Num::Float(value) if value.fract() == 0.0 && value.abs() < 1e17 => format!("{value:.0}"),
        other => other.to_string(),
    }
}
