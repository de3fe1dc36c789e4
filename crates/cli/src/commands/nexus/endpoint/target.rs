//! The flags that say where the requests of an endpoint go.

use clap::Args;
use segno_proto::{
    common::Payload,
    nexus::{
        EndpointTarget,
        endpoint_target::{External, Variant, Worker},
    },
};

use crate::output::payload;

/// The target and the description.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// Namespace of the workers that handle the operations.
    #[arg(long, value_name = "NAME")]
    target_namespace: Option<String>,
    /// Task queue of these workers.
    #[arg(long, value_name = "NAME")]
    target_task_queue: Option<String>,
    /// URL of a server that handles them.
    #[arg(long, value_name = "URL", conflicts_with_all = ["target_namespace", "target_task_queue"])]
    target_url: Option<String>,
    /// What the endpoint is for, for people.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

impl Target {
    /// As the wire has it. What no flag names is that of the endpoint before.
    pub fn target(&self, before: Option<EndpointTarget>) -> Option<EndpointTarget> {
        if let Some(url) = &self.target_url {
            return Some(EndpointTarget { variant: Some(Variant::External(External { url: url.clone() })) });
        }
        if self.target_namespace.is_none() && self.target_task_queue.is_none() {
            return before;
        }
        let known = match before.and_then(|before| before.variant) {
            Some(Variant::Worker(worker)) => worker,
            _ => Worker::default(),
        };
        let worker = Worker {
            namespace: self.target_namespace.clone().unwrap_or(known.namespace),
            task_queue: self.target_task_queue.clone().unwrap_or(known.task_queue),
        };
        Some(EndpointTarget { variant: Some(Variant::Worker(worker)) })
    }

    /// As the wire has it: the text as JSON; nothing for an empty one. Without the flag it is that of the endpoint before.
    pub fn description(&self, before: Option<Payload>) -> Option<Payload> {
        match self.description.as_deref() {
            None => before,
            Some("") => None,
            Some(text) => Some(payload::of_json(&serde_json::Value::from(text).to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::nexus::endpoint::{create::Create, update::Update};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        target: Target,
    }

    #[derive(Parser)]
    enum Command {
        Create(Create),
        Update(Update),
    }

    fn target(flags: &[&str]) -> Target {
        Line::try_parse_from([&["segno"], flags].concat()).expect("flags that exist").target
    }

    fn worker(namespace: &str, queue: &str) -> Option<EndpointTarget> {
        let worker = Worker { namespace: namespace.to_owned(), task_queue: queue.to_owned() };
        Some(EndpointTarget { variant: Some(Variant::Worker(worker)) })
    }

    #[test]
    fn what_no_flag_names_stays() {
        let after = |flags: &[&str]| target(flags).target(worker("n", "q"));
        assert_eq!(after(&[]), worker("n", "q"));
        assert_eq!(after(&["--target-task-queue", "r"]), worker("n", "r"));
        assert_eq!(after(&["--target-namespace", "m"]), worker("m", "q"));
        let url = Variant::External(External { url: "https://a".to_owned() });
        assert_eq!(after(&["--target-url", "https://a"]), Some(EndpointTarget { variant: Some(url) }));
        let before = Some(payload::of_json("\"before\""));
        assert_eq!(target(&[]).description(before.clone()), before);
        assert_eq!(target(&["--description", "d"]).description(before.clone()), Some(payload::of_json("\"d\"")));
        assert_eq!(target(&["--description", ""]).description(before), None);
    }

    #[test]
    fn flags_that_are_missing() {
        let parses = |line: &str| Command::try_parse_from(["segno"].into_iter().chain(line.split(' '))).is_ok();
        assert!(parses("create --name e --target-namespace n --target-task-queue q"));
        assert!(parses("create --name e --target-url https://a"));
        assert!(!parses("create --name e"));
        assert!(!parses("create --name e --target-namespace n"));
        assert!(!parses("create --name e --target-task-queue q"));
        assert!(!parses("create --name e --target-url https://a --target-task-queue q"));
        assert!(parses("update --name e --target-task-queue q"));
        assert!(parses("update --name e --new-name f --description d"));
        assert!(!parses("update --name e"));
    }
}
