//! Content of a result on the terminal: text as it is, everything else in one line, or saved into a folder.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::failure::CommandFailure;

/// Writes the content of a result: text to standard output, anything else to a file or in words.
pub(super) struct ContentPrinter<'a> {
    /// The folder that gets what is not text.
    pub(super) save: Option<&'a Path>,
    saved: usize,
}

impl<'a> ContentPrinter<'a> {
    pub(super) fn new(save: Option<&'a Path>) -> Self {
        Self { save, saved: 0 }
    }

    /// One block of a tool's result or of a prompt's message.
    pub(super) fn block(&mut self, block: &Value) -> Result<String, CommandFailure> {
        let kind = block["type"].as_str().unwrap_or_default();
        match kind {
            "image" | "audio" => self.binary(kind, &block["mimeType"], &block["data"]),
            "resource" => self.resource(&block["resource"]),
            "resource_link" => {
                let uri = block["uri"].as_str().unwrap_or_default();
                Ok(format!("[resource {uri}: tidings read {uri}]"))
            }
            _ => Ok(block["text"].as_str().map_or_else(|| block.to_string(), str::to_owned)),
        }
    }

    /// What was read of a resource.
    pub(super) fn resource(&mut self, resource: &Value) -> Result<String, CommandFailure> {
        match resource["text"].as_str() {
            Some(text) => Ok(text.to_owned()),
            None if resource["blob"].is_string() => {
                let name = resource["uri"].as_str().unwrap_or("resource");
                self.binary(name, &resource["mimeType"], &resource["blob"])
            }
            None => Ok(resource.to_string()),
        }
    }

    fn binary(&mut self, name: &str, kind: &Value, data: &Value) -> Result<String, CommandFailure> {
        let kind = kind.as_str().unwrap_or("application/octet-stream");
        let Some(bytes) = decoded(data) else { return Ok(format!("[{kind}, not valid base64]")) };
        let size = size(bytes.len());
        let Some(folder) = self.save else {
            return Ok(format!("[{kind}, {size}; --save DIR keeps it]"));
        };
        self.saved += 1;
        let path = place(folder, name, kind, self.saved);
        let fault = |error: std::io::Error| CommandFailure::Failed(format!("{}: {error}", path.display()));
        std::fs::create_dir_all(folder).map_err(fault)?;
        // Nothing that is there already is overwritten.
        let mut file = std::fs::File::create_new(&path).map_err(fault)?;
        file.write_all(&bytes).map_err(fault)?;
        Ok(format!("[{kind}, {size}, saved as {}]", path.display()))
    }
}

/// What was read, as bytes: `tidings read URI > FILE` makes the file. Only where standard output is no terminal, and
/// there is nothing else in the result.
pub(super) fn raw(contents: &[Value]) -> Option<Vec<u8>> {
    match contents {
        [only] if !std::io::stdout().is_terminal() => decoded(&only["blob"]),
        _ => None,
    }
}

fn decoded(data: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(data.as_str()?.trim()).ok()
}

/// A number of bytes, in the unit that fits.
fn size(bytes: usize) -> String {
    match bytes {
        0..=1_023 => super::terminal::plural(bytes as u64, "byte"),
        1_024..=1_048_575 => format!("{} KiB", bytes.div_ceil(1_024)),
        _ => format!("{} MiB", bytes.div_ceil(1_048_576)),
    }
}

/// A file for it: called as the last part of a URI, with an ending that fits its type.
fn place(folder: &Path, name: &str, kind: &str, nth: usize) -> PathBuf {
    let last = name.rsplit('/').next().unwrap_or(name);
    let plain: String =
        last.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect();
    // The name comes from a server: it must not hide the file or lead out of the folder.
    let plain = plain.trim_start_matches('.');
    if plain.contains('.') {
        // The first keeps its name; later ones are numbered, because several may have the same.
        return folder.join(if nth == 1 { plain.to_owned() } else { format!("{nth}-{plain}") });
    }
    let subtype = kind.split(['/', ';']).nth(1).unwrap_or_default();
    let ending = match subtype.split('+').next().unwrap_or_default() {
        "jpeg" => "jpg",
        "mpeg" => "mp3",
        "plain" => "txt",
        "" | "octet-stream" => "bin",
        other => other.trim_start_matches("x-"),
    };
    let stem = if plain.is_empty() { "content" } else { plain };
    folder.join(format!("{stem}-{nth}.{ending}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidings_testkit::TempDir;

    use super::*;

    // edges F14
    #[test]
    fn image_data_is_never_dumped_on_the_terminal() {
        let data = "A".repeat(4_000);
        let block = json!({"type": "image", "mimeType": "image/png", "data": data});
        assert_eq!(
            ContentPrinter::new(None).block(&block).ok(),
            Some("[image/png, 3 KiB; --save DIR keeps it]".to_owned())
        );
        let resource = json!({"type": "resource", "resource": {"uri": "x:///a/b.pdf", "mimeType": "application/pdf", "blob": "AAAA"}});
        let said = ContentPrinter::new(None).block(&resource).expect("words");
        assert_eq!(said, "[application/pdf, 3 bytes; --save DIR keeps it]");
        let broken = json!({"type": "audio", "mimeType": "audio/wav", "data": "?"});
        assert_eq!(ContentPrinter::new(None).block(&broken).ok(), Some("[audio/wav, not valid base64]".to_owned()));
    }

    // edges F14
    #[test]
    fn what_is_not_text_can_be_saved_and_overwrites_nothing() {
        let folder = TempDir::new();
        let block = json!({"type": "image", "mimeType": "image/jpeg", "data": "AAAA"});
        let mut printer = ContentPrinter::new(Some(folder.path()));
        for name in ["image-1.jpg", "image-2.jpg"] {
            assert!(printer.block(&block).expect("saved").ends_with(&format!("{name}]")), "{name}");
            assert_eq!(std::fs::read(folder.join(name)).expect("a file"), [0, 0, 0]);
        }
        assert!(ContentPrinter::new(Some(folder.path())).block(&block).is_err(), "it is there already");
        let named = place(Path::new("d"), "x:///a/../.b c.pdf", "application/pdf", 1);
        assert_eq!(named, Path::new("d/b_c.pdf"));
    }
}
