//! Upper bounds for the cost of checking a result against a schema from a server. Even a short schema can
//! require an unlimited number of evaluations, or more stack than the thread has.

use std::collections::HashMap;

use serde_json::Value;
use thruway_mcp::schema::JsonObject;

/// An upper bound for the evaluation cost of a schema.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SchemaCost {
    /// Number of schema evaluations for one value. Excludes recursion.
    evaluations: u64,
    /// Number of places where the schema refers to itself for a nested value.
    recursions: u64,
}

/// The state while this module visits all parts of a schema.
struct WalkState<'s> {
    root: &'s Value,
    /// The references that this module is currently following. Each entry also contains the depth in the
    /// checked value at which the reference was found.
    open: Vec<(&'s str, usize)>,
    /// Current depth in the checked value.
    depth: usize,
    /// Current depth in the schema.
    nesting: usize,
    /// Number of schemas visited.
    steps: u32,
    known: HashMap<&'s str, SchemaCost>,
}

impl SchemaCost {
    const NONE: Self = Self { evaluations: 0, recursions: 0 };
    const ONE: Self = Self { evaluations: 1, recursions: 0 };
    const RECURSION: Self = Self { evaluations: 0, recursions: 1 };
    const TOO_MUCH: Self = Self { evaluations: u64::MAX, recursions: u64::MAX };

    /// Returns the cost of a schema. Supports only references to parts of the same schema. Any other
    /// reference makes the cost unlimited.
    pub(crate) fn of(schema: &JsonObject) -> Self {
        let mut root = schema.clone();
        root.shift_remove("$id");
        let root = Value::Object(root);
        WalkState { root: &root, open: Vec::new(), depth: 0, nesting: 0, steps: 0, known: HashMap::new() }
            .cost(&root)
    }

    /// `true` if the cost has no upper bound.
    pub(super) fn is_endless(self) -> bool {
        self == Self::TOO_MUCH
    }

    /// `true` if checking `instance` takes an acceptable time.
    pub(super) fn is_affordable(self, instance: &Value) -> bool {
        let (values, depth) = size(instance);
        let again = self.recursions.max(1).saturating_pow(depth).saturating_mul(u64::from(depth) + 1);
        self.evaluations.saturating_mul(again).saturating_mul(values) <= EVALUATIONS_MAX
    }

    const fn and(self, other: Self) -> Self {
        Self {
            evaluations: self.evaluations.saturating_add(other.evaluations),
            recursions: self.recursions.saturating_add(other.recursions),
        }
    }
}

impl<'s> WalkState<'s> {
    fn cost(&mut self, schema: &'s Value) -> SchemaCost {
        let Value::Object(keywords) = schema else { return SchemaCost::ONE };
        self.steps += 1;
        if self.nesting >= NESTING_MAX || self.steps > STEPS_MAX {
            return SchemaCost::TOO_MUCH;
        }
        self.nesting += 1;
        let cost = keywords
            .iter()
            .fold(SchemaCost::ONE, |cost, (keyword, value)| cost.and(self.cost_of(keyword, value)));
        self.nesting -= 1;
        cost
    }

    fn cost_of(&mut self, keyword: &str, value: &'s Value) -> SchemaCost {
        match keyword {
            "$ref" | "$dynamicRef" => self.follow(value),
            // Below a nested `$id`, references have another base URI.
            "$id" => SchemaCost::TOO_MUCH,
            "allOf" | "anyOf" | "oneOf" | "dependencies" | "dependentSchemas" => self.all(value),
            "if" | "then" | "else" | "not" => self.cost(value),
            "properties" | "patternProperties" | "prefixItems" => self.below(|way| way.all(value)),
            "additionalItems" | "items" => {
                self.below(|way| if value.is_array() { way.all(value) } else { way.cost(value) })
            }
            "additionalProperties"
            | "contains"
            | "propertyNames"
            | "unevaluatedItems"
            | "unevaluatedProperties" => self.below(|way| way.cost(value)),
            _ => SchemaCost::NONE,
        }
    }

    /// Returns the total cost of all schemas in an object or an array.
    fn all(&mut self, schemas: &'s Value) -> SchemaCost {
        match schemas {
            Value::Object(schemas) => {
                schemas.values().fold(SchemaCost::NONE, |sum, one| sum.and(self.cost(one)))
            }
            Value::Array(schemas) => {
                schemas.iter().fold(SchemaCost::NONE, |sum, one| sum.and(self.cost(one)))
            }
            _ => SchemaCost::NONE,
        }
    }

    /// Calls `cost` with the depth in the checked value increased by one.
    fn below(&mut self, cost: impl FnOnce(&mut Self) -> SchemaCost) -> SchemaCost {
        self.depth += 1;
        let cost = cost(self);
        self.depth -= 1;
        cost
    }

    fn follow(&mut self, reference: &'s Value) -> SchemaCost {
        let reference = reference.as_str().unwrap_or_default();
        if let Some(known) = self.known.get(reference) {
            return *known;
        }
        if let Some((_, depth)) = self.open.iter().find(|(open, _)| *open == reference) {
            // The schema refers to itself for the same value, so the evaluation would never end.
            return if *depth == self.depth { SchemaCost::TOO_MUCH } else { SchemaCost::RECURSION };
        }
        let pointer = reference.strip_prefix('#').filter(|pointer| self.is_plain(pointer));
        let target = pointer.and_then(|pointer| self.root.pointer(pointer));
        let Some(target) = target else { return SchemaCost::TOO_MUCH };
        self.open.push((reference, self.depth));
        let cost = self.cost(target);
        self.open.pop();
        // The cost of a recursive reference depends on the reference at which the recursion starts, so the
        // cost is not cached.
        if cost.recursions == 0 {
            self.known.insert(reference, cost);
        }
        cost
    }

    /// `true` if all implementations resolve `pointer` to the same schema. This requires a pointer without
    /// percent encoding and without an `$id` on its path.
    fn is_plain(&self, pointer: &str) -> bool {
        let has_id =
            |end: usize| self.root.pointer(&pointer[..end]).is_some_and(|value| value.get("$id").is_some());
        !pointer.contains('%') && !pointer.match_indices('/').skip(1).any(|(end, _)| has_id(end))
    }
}

/// Returns the number of values in `instance` and its depth.
fn size(instance: &Value) -> (u64, u32) {
    let sum = |(values, depth): (u64, u32), one: &Value| {
        let (more, deeper) = size(one);
        (values + more, depth.max(deeper + 1))
    };
    match instance {
        Value::Array(values) => values.iter().fold((1, 0), sum),
        Value::Object(values) => values.values().fold((1, 0), sum),
        _ => (1, 0),
    }
}

/// Maximum number of schema evaluations for one result. This number of evaluations takes a few seconds.
const EVALUATIONS_MAX: u64 = 300_000_000;

/// Maximum depth of nested schemas, including references.
const NESTING_MAX: usize = 200;

/// Maximum number of visited schemas. A schema counts once for each reference to it.
const STEPS_MAX: u32 = 100_000;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_affordable(schema: &Value, instance: &Value) -> bool {
        SchemaCost::of(schema.as_object().unwrap()).is_affordable(instance)
    }

    /// Returns nested objects of the given depth.
    fn deep(depth: usize) -> Value {
        (0..depth).fold(json!({}), |inner, _| json!({"x": inner}))
    }

    #[test]
    fn typical_schemas_are_affordable() {
        let plain = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"},
            "b": {"type": "array", "items": {"$ref": "#/$defs/b"}}}, "$defs": {"b": {"anyOf": [{"type": "null"}, {"type": "object"}]}}});
        let rows: Vec<_> = (0..100_000).map(|n| json!({"n": n})).collect();
        assert!(is_affordable(&plain, &json!({"a": "a", "b": rows})));
        let list = json!({"$ref": "#/$defs/list", "$defs": {"list": {"properties": {"x": {"$ref": "#/$defs/list"}}}}});
        assert!(is_affordable(&list, &deep(100)));
        let tree = json!({"$id": "https://a.example/tree", "properties": {"left": {"$ref": "#"}, "x": {"$ref": "#"}}});
        assert!(is_affordable(&tree, &deep(8)));
    }

    #[test]
    fn endless_or_exponential_schemas_are_not_affordable() {
        let doubling: Value = (0..60)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
                (format!("d{n}"), json!({"allOf": [next, next]}))
            })
            .chain([("d60".to_owned(), json!({}))])
            .collect();
        let tree = json!({"$ref": "#/$defs/t", "$defs": {"t": {
            "allOf": [{"properties": {"x": {"$ref": "#/$defs/t"}}}, {"properties": {"x": {"$ref": "#/$defs/t"}}}]}}});
        assert!(!is_affordable(&tree, &deep(60)));
        let chain: Value =
            (0..1000).map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)}))).collect();
        for endless in [
            json!({"$ref": "#/$defs/d0", "$defs": doubling}),
            json!({"dependencies": {"a": {"$ref": "#/$defs/d0"}}, "$defs": doubling}),
            json!({"$ref": "#/$defs/%61", "$defs": {"%61": {}, "a": {}}}),
            json!({"$ref": "#/$defs/a/$defs/b", "$defs": {"a": {"$id": "a", "$defs": {"b": {}}}}}),
            json!({"$ref": "#"}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}}),
            json!({"$ref": "#/$defs/d0", "$defs": chain}),
            json!({"$ref": "#anchor", "$defs": {"a": {"$anchor": "anchor"}}}),
            json!({"properties": {"x": {"$id": "other", "$ref": "#/$defs/a"}}}),
            json!({"$ref": "https://a.example/"}),
        ] {
            assert!(!is_affordable(&endless, &json!({})), "{endless}");
        }
    }
}
