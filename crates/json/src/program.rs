//! From the text of a filter to its results.

use std::io;

use jaq_core::load::{Arena, File, Loader, import, span};
use jaq_core::native::run;
use jaq_core::{Compiler, Ctx, DataT, Lut, Vars, compile, data, load};
use jaq_json::{Val, ValX};
use jaq_std::input::{HasInputs, Inputs as Source, RcIter, funs as input_functions};

use crate::input::InputValues;
use crate::options::JsonOptions;
use crate::{JsonFailure, output};

pub(crate) type Filter = jaq_core::Filter<FilterData>;

/// What filters work on: JSON values, and the inputs behind `input` and `inputs`.
pub(crate) struct FilterData;

impl DataT for FilterData {
    type V<'a> = Val;
    type Data<'a> = &'a FilterInputs<'a>;
}

pub(crate) struct FilterInputs<'a> {
    lut: &'a Lut<FilterData>,
    inputs: Source<'a, Val>,
}

impl<'a> data::HasLut<'a, FilterData> for &'a FilterInputs<'a> {
    fn lut(&self) -> &'a Lut<FilterData> {
        self.lut
    }
}

impl<'a> HasInputs<'a, Val> for &'a FilterInputs<'a> {
    fn inputs(&self) -> Source<'a, Val> {
        self.inputs
    }
}

/// Where the language of jq differs from the one that is built in, and scripts rely on it.
const JQ: &str = include_str!("jq.jq");

/// Makes a filter of its text; faults are named with line and column.
pub(crate) fn compile(text: &str, variables: &[(String, Val)]) -> Result<Filter, JsonFailure> {
    let ours = load::parse(JQ, |parser| parser.defs()).unwrap_or_default();
    // Ours come last, so that they replace the built-in ones of the same name.
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(ours);
    let functions = jaq_core::funs::<FilterData>()
        .chain(jaq_std::funs::<FilterData>())
        .chain(jaq_json::funs::<FilterData>())
        .chain([run::<FilterData>(("jq_json", Box::new([]), |(_, value)| {
            Box::new(std::iter::once(Ok(Val::utf8_str(output::compact(&value)))))
        }))])
        .chain(input_functions::<FilterData>().into_vec().into_iter().map(run::<FilterData>));
    let names: Vec<String> = variables.iter().map(|(name, _)| format!("${name}")).collect();
    let arena = Arena::default();
    let loader = Loader::new(definitions);
    let modules =
        loader.load(&arena, File { path: (), code: text }).map_err(|errors| faults(text, load_faults(errors)))?;
    import(&modules, |_| Err("modules are not supported".into()))
        .map_err(|errors| faults(text, load_faults(errors)))?;
    Compiler::default()
        .with_funs(functions)
        .with_global_vars(names.iter().map(|name| &**name))
        .compile(modules)
        .map_err(|errors| faults(text, compile_faults(errors)))
}

/// A fault and the part of the filter that it is about.
type Fault<'a> = (&'a str, String);

fn load_faults<'a>(errors: load::Errors<&'a str, ()>) -> Vec<Fault<'a>> {
    let mut faults = Vec::new();
    for (_, error) in errors {
        match error {
            load::Error::Io(all) => faults.extend(all),
            load::Error::Lex(all) => {
                faults.extend(all.into_iter().map(|(wanted, found)| (found, format!("expected {}", wanted.as_str()))));
            }
            load::Error::Parse(all) => {
                faults.extend(all.into_iter().map(|(wanted, found)| (found, format!("expected {}", wanted.as_str()))));
            }
        }
    }
    faults
}

fn compile_faults<'a>(errors: compile::Errors<&'a str, ()>) -> Vec<Fault<'a>> {
    let all = errors.into_iter().flat_map(|(_, errors)| errors);
    all.map(|(found, undefined)| (found, format!("{found} is not defined ({})", undefined.as_str()))).collect()
}

fn faults(text: &str, faults: Vec<Fault<'_>>) -> JsonFailure {
    let lines = faults.into_iter().map(|(found, problem)| {
        let before = text.get(..span(text, found).start).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
        format!("the filter, line {line}, column {column}: {problem}")
    });
    JsonFailure::Program(lines.collect::<Vec<_>>().join("\n"))
}

/// What a reader of results says: go on, or stop with an exit code.
pub(crate) type Verdict = io::Result<Option<u8>>;

/// Hands every result to `each`, and an input that can not be read. Stops when `each` says so.
pub(crate) fn each_result(
    filter: &Filter,
    options: &JsonOptions,
    inputs: InputValues,
    mut each: impl FnMut(Result<ValX<'_>, String>) -> Verdict,
) -> Verdict {
    let inputs = RcIter::new(inputs);
    let surroundings = FilterInputs { lut: &filter.lut, inputs: &inputs };
    let variables = Vars::new(options.variables.iter().map(|(_, value)| value.clone()));
    let context = Ctx::<FilterData>::new(&surroundings, variables);
    let nothing = options.null_input.then_some(Ok(Val::Null));
    // With `-n` the inputs are left to the filter's own `input` and `inputs`.
    let read = std::iter::from_fn(|| if options.null_input { None } else { (&inputs).next() });
    for input in nothing.into_iter().chain(read) {
        let input = match input {
            Ok(input) => input,
            Err(problem) => return each(Err(problem)),
        };
        for result in filter.id.run((context.clone(), input)) {
            let ended = result.is_err();
            if let Some(code) = each(Ok(result))? {
                return Ok(Some(code));
            }
            // The rest of this input's results is lost with the error, as with jq.
            if ended {
                break;
            }
        }
    }
    Ok(None)
}
