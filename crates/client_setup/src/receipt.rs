//! What was changed in clients' files, so that it can be taken back byte for byte: one record per writing, the newest first.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::change::{ChangeError, EntryChange, file_error, taken_back, text_of};
use crate::client::by_id;
use crate::file;

/// One writing of a client's file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteReceipt {
    /// Whose file it is.
    pub client: String,
    /// The file that was changed.
    pub path: PathBuf,
    /// What became of its entries.
    pub changes: Vec<EntryChange>,
    /// A question for the token was added.
    pub(crate) asks: bool,
    /// The file was there.
    pub(crate) existed: bool,
    /// Folders that were made for it, the outermost first.
    pub(crate) made_folders: Vec<PathBuf>,
    /// SHA-256 of the file before and after.
    pub(crate) before: String,
    pub(crate) after: String,
    #[serde(skip)]
    pub(crate) number: u32,
}

/// The folder that holds the receipts and backups.
#[derive(Debug)]
pub struct ReceiptFolder {
    folder: PathBuf,
}

/// How a writing is taken back.
#[derive(Debug, PartialEq, Eq)]
pub enum UndoPlan {
    /// The file is as it was left: it becomes what it was, or goes.
    Whole {
        /// What it was; `None` when it was made by us.
        bytes: Option<Vec<u8>>,
    },
    /// Somebody wrote to it since: only our entries change.
    Entries {
        /// What stands in the file now.
        seen: Vec<u8>,
        /// What will stand there.
        bytes: Vec<u8>,
        /// Entries that somebody else changed since; they stay.
        stay: Vec<String>,
    },
    /// The file is gone.
    Gone,
}

impl ReceiptFolder {
    /// The receipts below a folder, which need not be there.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    fn name(&self, path: &Path, number: u32, ending: &str) -> PathBuf {
        let hash = file::digest(path.as_os_str().as_encoded_bytes());
        self.folder.join(format!("{}-{number}.{ending}", &hash[..16]))
    }

    /// The newest writing of a file that was not taken back.
    #[must_use]
    pub fn newest(&self, path: &Path) -> Option<WriteReceipt> {
        let number = (1..).take_while(|number| self.name(path, *number, "json").exists()).last()?;
        let text = std::fs::read(self.name(path, number, "json")).ok()?;
        let receipt: WriteReceipt = serde_json::from_slice(&text).ok()?;
        // The name of a receipt is a hash, which two paths could share.
        (receipt.path == path).then_some(WriteReceipt { number, ..receipt })
    }

    /// Keeps a receipt with the backup.
    pub(crate) fn keep(&self, mut receipt: WriteReceipt, before: Option<&[u8]>) -> Result<WriteReceipt, ChangeError> {
        std::fs::create_dir_all(&self.folder).map_err(file_error(&self.folder))?;
        receipt.number = self.newest(&receipt.path).map_or(1, |newest| newest.number + 1);
        let write = |ending: &str, bytes: &[u8]| {
            let place = self.name(&receipt.path, receipt.number, ending);
            file::write_private(&place, bytes).map_err(file_error(&place))
        };
        // The backup before the record: a record means that its backup is whole.
        write("before", before.unwrap_or_default())?;
        let text = serde_json::to_vec_pretty(&receipt).unwrap_or_default();
        write("json", &text)?;
        Ok(receipt)
    }

    /// Removes a receipt and its backup.
    pub fn forget(&self, receipt: &WriteReceipt) {
        for ending in ["json", "before"] {
            let _ = std::fs::remove_file(self.name(&receipt.path, receipt.number, ending));
        }
    }

    /// Works out how a writing can be taken back.
    pub fn plan(&self, receipt: &WriteReceipt) -> Result<UndoPlan, ChangeError> {
        let Some(seen) = file::read(&receipt.path).map_err(file_error(&receipt.path))? else {
            return Ok(UndoPlan::Gone);
        };
        let backup = self.name(&receipt.path, receipt.number, "before");
        let before = file::read(&backup).map_err(file_error(&backup))?;
        // Only a backup with the right digest may replace the user's file.
        let backup_is_whole = before.as_deref().is_some_and(|bytes| file::digest(bytes) == receipt.before);
        if backup_is_whole && file::digest(&seen) == receipt.after {
            return Ok(UndoPlan::Whole { bytes: before.filter(|_| receipt.existed) });
        }
        let text = text_of(&receipt.path, Some(&seen))?;
        let Some(client) = by_id(&receipt.client) else { return Ok(UndoPlan::Gone) };
        let (text, stay) = taken_back(client, &text, receipt)
            .map_err(|error| ChangeError::Edit { path: receipt.path.clone(), error })?;
        Ok(UndoPlan::Entries { seen, bytes: text.into_bytes(), stay })
    }

    /// Takes a writing back, if the file is still what the plan saw.
    pub fn undo(&self, receipt: &WriteReceipt, plan: &UndoPlan) -> Result<(), ChangeError> {
        let path = &receipt.path;
        let now = file::read(path).map_err(file_error(path))?;
        let digest = now.as_deref().map(file::digest);
        match plan {
            UndoPlan::Gone => {}
            UndoPlan::Whole { .. } if digest.as_deref() != Some(receipt.after.as_str()) => {
                return Err(ChangeError::MovedOn(path.clone()));
            }
            UndoPlan::Whole { bytes: Some(bytes) } => file::replace(path, bytes).map_err(file_error(path))?,
            UndoPlan::Whole { bytes: None } => {
                let real = file::destination(path);
                std::fs::remove_file(&real).map_err(file_error(&real))?;
                for folder in receipt.made_folders.iter().rev() {
                    // One that is in use by now stays.
                    let _ = std::fs::remove_dir(folder);
                }
            }
            UndoPlan::Entries { seen, bytes, .. } => {
                if now.as_ref() != Some(seen) {
                    return Err(ChangeError::MovedOn(path.clone()));
                }
                file::replace(path, bytes).map_err(file_error(path))?;
            }
        }
        self.forget(receipt);
        Ok(())
    }
}
