//! `sandbox` of a command.

use std::path::PathBuf;

/// What a command may do to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SandboxLevel {
    /// What its user may do.
    #[default]
    Off,
    /// It can write only where it is permitted to.
    Files,
    /// It can neither read the home folder, but for what is permitted, nor make system calls that no server needs.
    Strict,
}

/// The sandbox of a command.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SandboxSettings {
    /// How tight it is.
    pub level: SandboxLevel,
    /// Where it may write, besides its own folder.
    pub writable: Vec<PathBuf>,
    /// What it may read in the home folder.
    pub readable: Vec<PathBuf>,
}
