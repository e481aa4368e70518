//! `tidings scaffold`: first files for those who write scripts.

use std::path::{Path, PathBuf};

use tidings_project::{ScaffoldFault, ScaffoldSubject};

use super::project::named;
use crate::cli::ScaffoldKind;
use crate::failure::CommandFailure;
use crate::shell_word::shell_word;

pub(super) fn run(kind: ScaffoldKind, name: &str, project: Option<&Path>) -> Result<(), CommandFailure> {
    let project = named(project).unwrap_or_else(|| PathBuf::from("."));
    let made = tidings_project::scaffold(kind.into(), name, &project).map_err(|fault| match fault {
        ScaffoldFault::Name(_) | ScaffoldFault::Exists(_) => CommandFailure::Usage(fault.to_string()),
        ScaffoldFault::Register { .. } | ScaffoldFault::Io { .. } => CommandFailure::failed(fault),
    })?;
    println!("Made in {}:", project.display());
    for path in made {
        println!("  {}", path.display());
    }
    println!("\nNext:");
    for line in next(kind, name, &shell_word(&project.display().to_string())) {
        println!("  {line}");
    }
    Ok(())
}

/// The commands that help from here.
fn next(kind: ScaffoldKind, name: &str, project: &str) -> Vec<String> {
    let connect = format!("claude mcp add {name} -- tidings project {project} --allow '*'");
    let validate = format!("tidings project validate {project}");
    match kind {
        ScaffoldKind::Tool => {
            let call = format!("tidings project run-tool {name} --project {project} --args '{{\"name\": \"Ada\"}}'");
            vec![call, validate, connect]
        }
        ScaffoldKind::Prompt | ScaffoldKind::Resource | ScaffoldKind::Ui => vec![validate, connect],
        ScaffoldKind::Completion => {
            vec![
                format!("tidings project scaffold prompt {name} --project {project}    # what it completes"),
                validate,
                connect,
            ]
        }
    }
}

impl From<ScaffoldKind> for ScaffoldSubject {
    fn from(kind: ScaffoldKind) -> Self {
        match kind {
            ScaffoldKind::Tool => Self::Tool,
            ScaffoldKind::Prompt => Self::Prompt,
            ScaffoldKind::Resource => Self::Resource,
            ScaffoldKind::Completion => Self::Completion,
            ScaffoldKind::Ui => Self::Page,
        }
    }
}
