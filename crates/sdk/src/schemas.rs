//! JSON schemas of definitions, with the feature `schema`: inputs and outputs of workflows and tasks, for documents, forms and
//! programs in other languages.
//!
//! ```
//! # use segno_sdk::prelude::*;
//! # use segno_sdk::schemas::Schemas;
//! #[task]
//! async fn charge(order: String, cents: u64) -> Result<bool> {
//!     Ok(!order.is_empty() && cents > 0)
//! }
//!
//! let schemas = Schemas::new().task::<Charge>().into_json();
//! assert_eq!(schemas["tasks"]["charge"]["output"]["type"], "boolean");
//! ```

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::definition::{Query, Signal, TaskDefinition, Update, WorkflowDefinition};

/// JSON schemas (draft 2020-12) of definitions, by kind.
///
/// Each has `input` and `output`. Where several arguments travel as several payloads, `input` is the list of them.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Schemas {
    tasks: Map<String, Value>,
    workflows: Map<String, Value>,
}

fn schema<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}

impl Schemas {
    /// Of nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task.
    pub fn task<T: TaskDefinition<Input: JsonSchema, Output: JsonSchema>>(mut self) -> Self {
        let both = json!({ "input": schema::<T::Input>(), "output": schema::<T::Output>() });
        self.tasks.insert(T::KIND.to_owned(), both);
        self
    }

    /// Adds a workflow. What it has of messages is added with [`signal`](Self::signal), [`query`](Self::query) and
    /// [`update`](Self::update).
    pub fn workflow<W: WorkflowDefinition<Input: JsonSchema, Output: JsonSchema>>(mut self) -> Self {
        let entry = self.entry(W::KIND);
        entry.insert("input".to_owned(), schema::<W::Input>());
        entry.insert("output".to_owned(), schema::<W::Output>());
        self
    }

    /// Adds a signal of a workflow.
    pub fn signal<W: WorkflowDefinition, T: JsonSchema>(self, signal: Signal<T>) -> Self {
        self.message(W::KIND, "signals", signal.name(), json!({ "input": schema::<T>() }))
    }

    /// Adds a query of a workflow.
    pub fn query<W: WorkflowDefinition, I: JsonSchema, O: JsonSchema>(self, query: Query<I, O>) -> Self {
        let both = json!({ "input": schema::<I>(), "output": schema::<O>() });
        self.message(W::KIND, "queries", query.name(), both)
    }

    /// Adds an update of a workflow.
    pub fn update<W: WorkflowDefinition, I: JsonSchema, O: JsonSchema>(self, update: Update<I, O>) -> Self {
        let both = json!({ "input": schema::<I>(), "output": schema::<O>() });
        self.message(W::KIND, "updates", update.name(), both)
    }

    /// All of them: `{ "tasks": { .. }, "workflows": { .. } }`.
    pub fn into_json(self) -> Value {
        json!({ "tasks": self.tasks, "workflows": self.workflows })
    }

    fn entry(&mut self, kind: &str) -> &mut Map<String, Value> {
        object(&mut self.workflows, kind)
    }

    fn message(mut self, kind: &str, what: &str, name: &str, schemas: Value) -> Self {
        object(self.entry(kind), what).insert(name.to_owned(), schemas);
        self
    }
}

/// The object under a key, which is made if it is not there.
fn object<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let value = map.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("it was just made one")
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate::{Context, Result, WorkflowContext, task, workflow};

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Line {
        item: String,
        cents: u64,
    }

    #[task]
    async fn price(item: String, quantity: u32) -> Result<u64> {
        Ok(u64::from(quantity) * item.len() as u64)
    }

    #[derive(Default)]
    struct Cart {
        cents: u64,
    }

    #[workflow]
    impl Cart {
        #[run]
        async fn run(ctx: Context<Self>, limit: u64) -> Result<u64> {
            ctx.sleep(std::time::Duration::from_secs(limit)).await?;
            Ok(ctx.this().cents)
        }
        #[signal]
        fn check_out(&mut self) {}
        #[query]
        fn total(&self) -> u64 {
            self.cents
        }
        #[update]
        fn add(&mut self, line: Line) -> Result<u64> {
            self.cents += line.cents;
            Ok(self.cents)
        }
    }

    #[test]
    fn definitions_and_their_messages() {
        let schemas = Schemas::new()
            .task::<Price>()
            .workflow::<Cart>()
            .signal::<Cart, _>(Cart::CHECK_OUT)
            .query::<Cart, _, _>(Cart::TOTAL)
            .update::<Cart, _, _>(Cart::ADD)
            .into_json();
        let input = &schemas["tasks"]["price"]["input"];
        assert_eq!((input["type"].as_str(), input["prefixItems"].as_array().map(Vec::len)), (Some("array"), Some(2)));
        let cart = &schemas["workflows"]["Cart"];
        assert_eq!(cart["input"]["type"], "integer");
        assert_eq!(cart["signals"]["check_out"]["input"]["type"], "null");
        assert_eq!(cart["queries"]["total"]["output"]["type"], "integer");
        assert_eq!(cart["updates"]["add"]["input"]["properties"]["item"]["type"], "string");
    }
}
