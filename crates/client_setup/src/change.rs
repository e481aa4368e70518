//! A change of a client's file: first as a preview, then written, if the file is still what the preview saw.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::client::KnownClient;
use crate::edit::{self, EditError};
use crate::entry::INPUT_ID;
use crate::file;
use crate::mask::masked;
use crate::receipt::{ReceiptFolder, WriteReceipt};

/// What happens to one entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EntryChange {
    /// The name of the server.
    pub name: String,
    /// What stood there; `None` for nothing.
    pub before: Option<Value>,
    /// What is to stand there.
    pub after: Option<Value>,
}

/// Why a file was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The file says something that can not be edited.
    #[error("{}: {error}", path.display())]
    Edit {
        /// The file that was to be changed.
        path: PathBuf,
        /// Why it can not be edited.
        error: EditError,
    },
    /// It could not be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file that was to be read or written.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// Somebody wrote to it since it was looked at.
    #[error("{} has changed since the preview; nothing was written. Run the command again", .0.display())]
    MovedOn(PathBuf),
    /// Somebody wrote to it right after us.
    #[error("{} was changed by another program right after it was written; close the client and run the command again", .0.display())]
    Overwritten(PathBuf),
}

/// A change that can be shown and then written.
#[derive(Debug)]
pub struct FilePreview {
    /// The file that is changed.
    pub path: PathBuf,
    /// What becomes of its entries.
    pub changes: Vec<EntryChange>,
    client: &'static KnownClient,
    before: Option<Vec<u8>>,
    after: Vec<u8>,
    asks: bool,
}

/// The text of a client's file; an empty one when there is none.
pub(crate) fn text_of(path: &Path, bytes: Option<&[u8]>) -> Result<String, ChangeError> {
    let error = || EditError::Unreadable("it is not UTF-8".to_owned());
    String::from_utf8(bytes.unwrap_or_default().to_vec())
        .map_err(|_| ChangeError::Edit { path: path.to_owned(), error: error() })
}

pub(crate) fn file_error(path: &Path) -> impl Fn(std::io::Error) -> ChangeError + '_ {
    |error| ChangeError::File { path: path.to_owned(), error }
}

fn edit_error(path: &Path) -> impl Fn(EditError) -> ChangeError + '_ {
    |error| ChangeError::Edit { path: path.to_owned(), error }
}

impl FilePreview {
    /// Works out what the file will be when each name has its new entry, or none. `asks` also adds the question for the
    /// token to the files of clients that have such questions.
    pub fn new(
        client: &'static KnownClient,
        path: &Path,
        wanted: &[(String, Option<Value>)],
        asks: bool,
    ) -> Result<Self, ChangeError> {
        let before = file::read(path).map_err(file_error(path))?;
        let mut text = text_of(path, before.as_deref())?;
        let known = edit::entries(client.format, &text, client.key).map_err(edit_error(path))?;
        let mut changes = Vec::new();
        for (name, after) in wanted {
            if known.get(name) == after.as_ref() {
                continue;
            }
            text =
                edit::with_entry(client.format, &text, client.key, name, after.as_ref()).map_err(edit_error(path))?;
            changes.push(EntryChange { name: name.clone(), before: known.get(name).cloned(), after: after.clone() });
        }
        let asks = asks && !changes.is_empty();
        if asks {
            text = edit::with_input(&text, INPUT_ID).map_err(edit_error(path))?;
        }
        Ok(Self { path: path.to_owned(), changes, client, before, after: text.into_bytes(), asks })
    }

    /// Whether the file says everything already.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.changes.is_empty()
    }

    /// Whether there is no such file yet.
    #[must_use]
    pub fn makes_the_file(&self) -> bool {
        self.before.is_none()
    }

    /// The entries that go and come, in the words of the file, without secrets. Nothing of other entries is shown.
    #[must_use]
    pub fn shown(&self) -> String {
        let mut out = String::new();
        for change in &self.changes {
            for (sign, entry) in [('-', &change.before), ('+', &change.after)] {
                let Some(entry) = entry else { continue };
                // Written into an empty file, which then holds the lines of this entry and no others.
                let alone =
                    edit::with_entry(self.client.format, "", self.client.key, &change.name, Some(&masked(entry)));
                for line in alone.unwrap_or_else(|_| change.name.clone()).lines() {
                    out.push_str(&format!("  {sign} {line}\n"));
                }
            }
        }
        if self.asks {
            out.push_str(&format!("  + a question for the token in `inputs`: {INPUT_ID}\n"));
        }
        out
    }

    /// Writes the file, after its backup, unless it is no longer what the preview saw.
    pub fn write(&self, receipts: &ReceiptFolder) -> Result<WriteReceipt, ChangeError> {
        let now = file::read(&self.path).map_err(file_error(&self.path))?;
        // Nobody can lock these files: what a client writes between this look and the rename is lost.
        if now != self.before {
            return Err(ChangeError::MovedOn(self.path.clone()));
        }
        let receipt = WriteReceipt {
            client: self.client.id.to_owned(),
            path: self.path.clone(),
            changes: self.changes.clone(),
            asks: self.asks,
            existed: self.before.is_some(),
            made_folders: file::missing_folders(&file::destination(&self.path)),
            before: file::digest(self.before.as_deref().unwrap_or_default()),
            after: file::digest(&self.after),
            number: 0,
        };
        // The receipt comes first: without it a file that was written could not be taken back.
        let receipt = receipts.keep(receipt, self.before.as_deref())?;
        if let Err(error) = file::replace(&self.path, &self.after) {
            // Nothing was written, so there is nothing to take back.
            receipts.forget(&receipt);
            return Err(file_error(&self.path)(error));
        }
        Ok(receipt)
    }

    /// Looks again, some time after the writing: clients write these files, too.
    pub fn confirm(&self) -> Result<(), ChangeError> {
        let now = file::read(&self.path).map_err(file_error(&self.path))?;
        let text = text_of(&self.path, now.as_deref())?;
        let known = edit::entries(self.client.format, &text, self.client.key).map_err(edit_error(&self.path))?;
        if self.changes.iter().any(|change| known.get(&change.name) != change.after.as_ref()) {
            return Err(ChangeError::Overwritten(self.path.clone()));
        }
        Ok(())
    }
}

/// The text with every change taken back, and the names that somebody changed since, which stay.
pub(crate) fn taken_back(
    client: &'static KnownClient,
    text: &str,
    receipt: &WriteReceipt,
) -> Result<(String, Vec<String>), EditError> {
    let known = edit::entries(client.format, text, client.key)?;
    let mut out = text.to_owned();
    let mut stay = Vec::new();
    for change in &receipt.changes {
        match known.get(&change.name) {
            now if now == change.after.as_ref() => {
                out = edit::with_entry(client.format, &out, client.key, &change.name, change.before.as_ref())?;
            }
            // Somebody took it back by hand.
            now if now == change.before.as_ref() => {}
            _ => stay.push(change.name.clone()),
        }
    }
    // An entry that stays may still ask the question.
    if receipt.asks && stay.is_empty() {
        out = edit::without_input(&out, INPUT_ID)?;
    }
    Ok((out, stay))
}
