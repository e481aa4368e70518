//! Servers that live in the process, behind the same link as any other: the router does not know the difference.

mod demo;
mod local;
mod search_tools;

pub use demo::Demo;
pub use search_tools::SearchTools;
