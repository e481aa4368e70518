//! Lists of many servers as one: their order, their pages, their names, and what a bad server can not spoil.

mod completion;
mod failures;
mod merged;
mod names;
mod pages;
mod profiles;
