//! The options of `jq` that scripts use.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use jaq_json::{Map, Val};

use crate::{JsonFailure, input};

/// What `--help` prints.
pub const HELP: &str = "\
Read JSON, apply a filter in the language of jq, write the results.

Usage: tidings json [OPTIONS] FILTER [FILE]...

What is read:
  -n, --null-input          do not read; the filter's input is null (`input` and `inputs` still read)
  -R, --raw-input           each line is a string
  -s, --slurp               all inputs as one array (with -R: as one string)
  -f, --from-file FILE      the filter is in FILE

What is written:
  -r, --raw-output          strings without quotes
  -j, --join-output         like -r, without line ends
  -c, --compact-output      one line per result
  -a, --ascii-output        only ASCII, the rest escaped
  -S, --sort-keys           members of objects in order
      --indent N, --tab     how to indent
  -e, --exit-status         exit with 1 if the last result was false or null, 4 if there was none

Variables of the filter:
      --arg NAME TEXT       $NAME is a string
      --argjson NAME JSON   $NAME is a value
      --slurpfile NAME FILE $NAME is an array of the values in FILE
      --rawfile NAME FILE   $NAME is the text of FILE
      --args, --jsonargs    the arguments that follow are $ARGS.positional, not files

Example:
  echo '{\"name\": \"Ada\"}' | tidings json -r '\"Hello, \\(.name)!\"'
";

/// What is asked for.
pub(crate) enum FilterAction {
    Help,
    Version,
    Run(Box<JsonOptions>),
}

/// How the structure of results is indented.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputLayout {
    Compact,
    Spaces(usize),
    Tabs,
}

/// Everything that was asked for.
pub(crate) struct JsonOptions {
    pub(crate) program: String,
    /// Names without `$`, in the order of their values.
    pub(crate) variables: Vec<(String, Val)>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) null_input: bool,
    pub(crate) raw_input: bool,
    pub(crate) slurp: bool,
    pub(crate) raw_output: bool,
    pub(crate) join_output: bool,
    pub(crate) ascii_output: bool,
    pub(crate) sort_keys: bool,
    pub(crate) exit_by_result: bool,
    pub(crate) layout: OutputLayout,
}

/// What arguments that are not options mean from here on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandMeaning {
    Files,
    Texts,
    Values,
}

struct OptionReader {
    options: JsonOptions,
    program: Option<String>,
    from_file: Option<PathBuf>,
    named: Vec<(String, Val)>,
    positional: Vec<Val>,
    rest: OperandMeaning,
}

/// Reads the arguments after the tool's name.
pub(crate) fn parse(arguments: impl Iterator<Item = OsString>) -> Result<FilterAction, JsonFailure> {
    let mut arguments = arguments;
    let mut reading = OptionReader::new();
    let mut only_operands = false;
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy();
        if only_operands || !is_option(&text) {
            reading.operand(&text)?;
            continue;
        }
        match &*text {
            "--" => only_operands = true,
            "-h" | "--help" => return Ok(FilterAction::Help),
            "-V" | "--version" => return Ok(FilterAction::Version),
            long if long.starts_with("--") => reading.long(long, &mut arguments)?,
            short => reading.short(short, &mut arguments)?,
        }
    }
    reading.finish().map(|options| FilterAction::Run(Box::new(options)))
}

/// A filter may begin with a minus.
fn is_option(text: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|first: char| first == '-' || first.is_ascii_alphabetic()))
}

impl OptionReader {
    fn new() -> Self {
        let options = JsonOptions {
            program: String::new(),
            variables: Vec::new(),
            files: Vec::new(),
            null_input: false,
            raw_input: false,
            slurp: false,
            raw_output: false,
            join_output: false,
            ascii_output: false,
            sort_keys: false,
            exit_by_result: false,
            layout: OutputLayout::Spaces(2),
        };
        Self {
            options,
            program: None,
            from_file: None,
            named: Vec::new(),
            positional: Vec::new(),
            rest: OperandMeaning::Files,
        }
    }

    fn operand(&mut self, text: &str) -> Result<(), JsonFailure> {
        if self.program.is_none() && self.from_file.is_none() {
            self.program = Some(text.to_owned());
            return Ok(());
        }
        match self.rest {
            OperandMeaning::Files => self.options.files.push(text.into()),
            OperandMeaning::Texts => self.positional.push(Val::utf8_str(text.to_owned())),
            OperandMeaning::Values => self.positional.push(value_of("--jsonargs", text)?),
        }
        Ok(())
    }

    /// Options of one letter, perhaps several behind one dash.
    fn short(&mut self, text: &str, arguments: &mut impl Iterator<Item = OsString>) -> Result<(), JsonFailure> {
        for letter in text.chars().skip(1) {
            let long = match letter {
                'n' => "--null-input",
                'R' => "--raw-input",
                's' => "--slurp",
                'r' => "--raw-output",
                'j' => "--join-output",
                'c' => "--compact-output",
                'a' => "--ascii-output",
                'S' => "--sort-keys",
                'e' => "--exit-status",
                'f' => "--from-file",
                'C' => "--color-output",
                'M' => "--monochrome-output",
                other => return Err(JsonFailure::Usage(format!("unknown option -{other}"))),
            };
            self.long(long, arguments)?;
        }
        Ok(())
    }

    fn long(&mut self, option: &str, arguments: &mut impl Iterator<Item = OsString>) -> Result<(), JsonFailure> {
        let mut next = |what: &str| {
            let argument = arguments.next().map(|argument| argument.to_string_lossy().into_owned());
            argument.ok_or_else(|| JsonFailure::Usage(format!("{option} needs {what}")))
        };
        let options = &mut self.options;
        match option {
            "--null-input" => options.null_input = true,
            "--raw-input" => options.raw_input = true,
            "--slurp" => options.slurp = true,
            "--raw-output" => options.raw_output = true,
            "--join-output" => {
                options.raw_output = true;
                options.join_output = true;
            }
            "--compact-output" => options.layout = OutputLayout::Compact,
            "--ascii-output" => options.ascii_output = true,
            "--sort-keys" => options.sort_keys = true,
            "--exit-status" => options.exit_by_result = true,
            "--tab" => options.layout = OutputLayout::Tabs,
            "--indent" => {
                options.layout = match next("a number")?.parse() {
                    Ok(0) => OutputLayout::Compact,
                    Ok(spaces @ 1..=7) => OutputLayout::Spaces(spaces),
                    _ => return Err(JsonFailure::Usage("--indent takes 0 to 7 spaces".into())),
                }
            }
            // Results are written when they are there, and never coloured.
            "--unbuffered" | "--color-output" | "--monochrome-output" => {}
            "--from-file" => self.from_file = Some(next("a file")?.into()),
            "--arg" => {
                let name = next("a name and a text")?;
                self.named.push((name, Val::utf8_str(next("a text")?)));
            }
            "--argjson" => {
                let name = next("a name and a JSON value")?;
                let value = value_of(&format!("--argjson {name}"), &next("a JSON value")?)?;
                self.named.push((name, value));
            }
            "--slurpfile" => {
                let name = next("a name and a file")?;
                let path = PathBuf::from(next("a file")?);
                let text = input::read_file(&path)?;
                let values: Result<Vec<Val>, String> = input::values(&text).collect();
                let values = values.map_err(|problem| input::unreadable(&path, &problem))?;
                self.named.push((name, values.into_iter().collect()));
            }
            "--rawfile" => {
                let name = next("a name and a file")?;
                let text = input::read_file(Path::new(&next("a file")?))?;
                self.named.push((name, Val::utf8_str(text)));
            }
            "--args" => self.rest = OperandMeaning::Texts,
            "--jsonargs" => self.rest = OperandMeaning::Values,
            other => return Err(JsonFailure::Usage(format!("unknown option {other}"))),
        }
        Ok(())
    }

    fn finish(self) -> Result<JsonOptions, JsonFailure> {
        let mut options = self.options;
        // With --from-file the first operand is a file, wherever the option stands.
        match (self.from_file, self.program) {
            (Some(path), operand) => {
                let text = input::read_file(&path)?;
                options.program = String::from_utf8_lossy(&text).into_owned();
                options.files.splice(0..0, operand.map(PathBuf::from));
            }
            (None, Some(program)) => options.program = program,
            (None, None) => return Err(JsonFailure::Usage("a filter is missing; `.` writes what it reads".into())),
        }
        let named: Map = self.named.iter().map(|(name, value)| (Val::utf8_str(name.clone()), value.clone())).collect();
        let all = [
            (Val::utf8_str("positional"), self.positional.into_iter().collect()),
            (Val::utf8_str("named"), Val::obj(named)),
        ];
        options.variables = self.named;
        // jq has `$ARGS` and `$ENV` in every filter, and one that names an undefined variable does not compile.
        options.variables.push(("ARGS".into(), Val::obj(all.into_iter().collect())));
        options.variables.push(("ENV".into(), environment()));
        Ok(options)
    }
}

fn environment() -> Val {
    let text = |text: OsString| Val::utf8_str(text.to_string_lossy().into_owned());
    Val::obj(std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect())
}

fn value_of(option: &str, text: &str) -> Result<Val, JsonFailure> {
    let value = input::single(text.as_bytes());
    value.map_err(|problem| JsonFailure::Usage(format!("{option}: not a JSON value: {problem}")))
}
