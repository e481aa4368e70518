//! Servers that live in the process, behind the same link as any other: the router does not know the difference.

mod demo;
mod local;

pub use demo::Demo;
