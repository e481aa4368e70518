//! As much of JSON Schema as the official schemas of the protocol use. A keyword that is not understood is no reason to be content: it
//! panics.

use serde_json::Value;

/// What only explains.
const WORDS: [&str; 4] = ["$schema", "description", "format", "default"];

/// The schema of one revision.
pub(crate) struct Schema {
    whole: Value,
}

impl Schema {
    pub(crate) fn parse(text: &str) -> Self {
        Self { whole: serde_json::from_str(text).unwrap() }
    }

    fn definitions(&self) -> &serde_json::Map<String, Value> {
        self.whole.get("$defs").or_else(|| self.whole.get("definitions")).unwrap().as_object().unwrap()
    }

    pub(crate) fn defines(&self, name: &str) -> bool {
        self.definitions().contains_key(name)
    }

    /// The definition of the request or notification with this method.
    pub(crate) fn of_method(&self, method: &str) -> Option<&str> {
        let fits = |definition: &Value| definition["properties"]["method"]["const"] == method;
        self.definitions().iter().find(|(_, definition)| fits(definition)).map(|(name, _)| name.as_str())
    }

    /// What is wrong with a value, by a definition.
    pub(crate) fn faults(&self, definition: &str, value: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        let rules = self.definitions().get(definition).unwrap_or_else(|| panic!("no definition {definition}"));
        self.check(rules, value, definition, &mut faults);
        faults
    }

    fn is_valid(&self, rules: &Value, value: &Value) -> bool {
        let mut faults = Vec::new();
        self.check(rules, value, "", &mut faults);
        faults.is_empty()
    }

    fn check(&self, rules: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let Some(rules) = rules.as_object() else {
            assert_eq!(*rules, true, "{at}");
            return;
        };
        let mut wrong = |what: String| faults.push(format!("{at}: {what}"));
        for (keyword, rule) in rules {
            match keyword.as_str() {
                "type" => {
                    let one = std::slice::from_ref(rule);
                    let types = rule.as_array().map_or(one, Vec::as_slice);
                    if !types.iter().any(|name| is_of_type(name.as_str().unwrap(), value)) {
                        wrong(format!("is no {rule} but {value}"));
                    }
                }
                "const" if value != rule => wrong(format!("is not {rule} but {value}")),
                "enum" if !rule.as_array().unwrap().contains(value) => wrong(format!("is none of {rule} but {value}")),
                "minimum" if value.as_f64().is_some_and(|number| number < rule.as_f64().unwrap()) => {
                    wrong(format!("{value} is less than {rule}"));
                }
                "maximum" if value.as_f64().is_some_and(|number| number > rule.as_f64().unwrap()) => {
                    wrong(format!("{value} is more than {rule}"));
                }
                "maxItems" if value.as_array().is_some_and(|all| all.len() as u64 > rule.as_u64().unwrap()) => {
                    wrong(format!("has more than {rule} items"));
                }
                "anyOf" if !rule.as_array().unwrap().iter().any(|one| self.is_valid(one, value)) => {
                    wrong(format!("fits nothing of {rule}: {value}"));
                }
                "required" if value.is_object() => {
                    for name in rule.as_array().unwrap() {
                        if value.get(name.as_str().unwrap()).is_none() {
                            wrong(format!("has no {name}: {value}"));
                        }
                    }
                }
                "const" | "enum" | "minimum" | "maximum" | "maxItems" | "anyOf" | "required" => {}
                "$ref" | "allOf" | "properties" | "additionalProperties" | "items" => {}
                "$defs" | "definitions" => {}
                other => assert!(WORDS.contains(&other), "the keyword {other} is not understood"),
            }
        }
        if let Some(name) = rules.get("$ref").and_then(Value::as_str) {
            let name = name.rsplit('/').next().unwrap();
            self.check(&self.definitions()[name], value, at, faults);
        }
        for part in rules.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.check(part, value, at, faults);
        }
        if let (Some(rule), Some(items)) = (rules.get("items"), value.as_array()) {
            for (number, item) in items.iter().enumerate() {
                self.check(rule, item, &format!("{at}[{number}]"), faults);
            }
        }
        let Some(members) = value.as_object() else { return };
        let properties = rules.get("properties").and_then(Value::as_object);
        for (name, member) in members {
            let at = format!("{at}.{name}");
            match (properties.and_then(|all| all.get(name)), rules.get("additionalProperties")) {
                (Some(rule), _) => self.check(rule, member, &at, faults),
                (None, Some(Value::Bool(false))) => faults.push(format!("{at}: must not be there")),
                (None, Some(rule)) if rule.is_object() => self.check(rule, member, &at, faults),
                (None, _) => {}
            }
        }
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("the type {other} is not understood"),
    }
}
