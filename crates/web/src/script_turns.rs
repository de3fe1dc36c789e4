//! The turns of a script's run, from its history: which events each one took, and which it wrote.

use segno_proto::events::{HistoryEvent, history_event::Attributes as A};

/// One execution of a script's code.
#[derive(Debug, Default)]
pub(super) struct Turn<'a> {
    /// The completed event of its workflow task.
    pub(super) completed: i64,
    /// The last event that it wrote.
    pub(super) last: i64,
    /// The event because of which it was taken.
    pub(super) woken_by: Option<&'a HistoryEvent>,
    /// Further events that it took, which alone would not have woken the script, or came meanwhile.
    pub(super) also_taken: Vec<&'a HistoryEvent>,
    /// The events that came of it.
    pub(super) commanded: Vec<&'a HistoryEvent>,
    /// When it was taken.
    pub(super) time: Option<&'a prost_types::Timestamp>,
}

impl Turn<'_> {
    /// Whether an event belongs to this turn: it took it or wrote it.
    fn has(&self, event: i64) -> bool {
        let taken = self.woken_by.iter().chain(&self.also_taken).any(|taken| taken.event_id == event);
        taken || (self.completed..=self.last).contains(&event)
    }
}

/// The place of the turn that took or wrote an event.
pub(super) fn turn_of(turns: &[Turn<'_>], event: i64) -> Option<usize> {
    turns.iter().position(|turn| turn.has(event))
}

/// All turns whose events are kept, in order.
pub(super) fn turns(events: &[HistoryEvent]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    let mut waker = None;
    let mut inputs: Vec<&HistoryEvent> = Vec::new();
    for event in events {
        match &event.attributes {
            // The task is scheduled in the commit of the event that makes it necessary.
            Some(A::WorkflowTaskScheduledEventAttributes(_)) => waker = waker.or_else(|| waker_of(&mut inputs)),
            // No script waits for the start of a task.
            Some(
                A::ActivityTaskStartedEventAttributes(_)
                | A::WorkflowTaskStartedEventAttributes(_)
                | A::WorkflowTaskFailedEventAttributes(_)
                | A::WorkflowTaskTimedOutEventAttributes(_),
            ) => {}
            Some(A::WorkflowTaskCompletedEventAttributes(_)) => turns.push(Turn {
                completed: event.event_id,
                last: event.event_id,
                woken_by: waker.take(),
                also_taken: std::mem::take(&mut inputs),
                commanded: Vec::new(),
                time: event.event_time.as_ref(),
            }),
            Some(attributes) => match (turns.last_mut(), attributes) {
                // An update alone makes a turn necessary, and history has it only once the turn accepted it.
                (Some(turn), A::WorkflowExecutionUpdateAcceptedEventAttributes(_)) => {
                    turn.last = event.event_id;
                    match turn.woken_by {
                        None => turn.woken_by = Some(event),
                        Some(_) => turn.also_taken.push(event),
                    }
                }
                (Some(turn), A::WorkflowExecutionUpdateCompletedEventAttributes(_)) => {
                    turn.last = event.event_id;
                    turn.commanded.push(event);
                }
                (Some(turn), attributes) if cause(attributes) == Some(turn.completed) => {
                    turn.last = event.event_id;
                    turn.commanded.push(event);
                }
                _ => inputs.push(event),
            },
            None => {}
        }
    }
    turns
}

/// Takes the event out of those not taken yet that makes a turn necessary: the last one, but at first the start.
fn waker_of<'a>(inputs: &mut Vec<&'a HistoryEvent>) -> Option<&'a HistoryEvent> {
    let is_start =
        |event: &&HistoryEvent| matches!(event.attributes, Some(A::WorkflowExecutionStartedEventAttributes(_)));
    match inputs.first().is_some_and(is_start) {
        true => Some(inputs.remove(0)),
        false => inputs.pop(),
    }
}

/// The completed workflow task of which an event came.
fn cause(attributes: &A) -> Option<i64> {
    Some(match attributes {
        A::ActivityTaskScheduledEventAttributes(a) => a.workflow_task_completed_event_id,
        A::ActivityTaskCancelRequestedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::TimerStartedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::TimerCanceledEventAttributes(a) => a.workflow_task_completed_event_id,
        A::StartChildWorkflowExecutionInitiatedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::SignalExternalWorkflowExecutionInitiatedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::RequestCancelExternalWorkflowExecutionInitiatedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::NexusOperationScheduledEventAttributes(a) => a.workflow_task_completed_event_id,
        A::NexusOperationCancelRequestedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::UpsertWorkflowSearchAttributesEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowPropertiesModifiedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::MarkerRecordedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowExecutionCompletedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowExecutionFailedEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowExecutionCanceledEventAttributes(a) => a.workflow_task_completed_event_id,
        A::WorkflowExecutionContinuedAsNewEventAttributes(a) => a.workflow_task_completed_event_id,
        _ => return None,
    })
}

/// A line of a script's stack trace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StackLine<'a> {
    /// The function.
    pub(super) function: &'a str,
    /// Its line in the source.
    pub(super) line: usize,
}

/// The lines of a stack trace, innermost first: `at order (order.flow:28:21)`.
pub(super) fn stack(trace: &str) -> Vec<StackLine<'_>> {
    trace.lines().filter_map(stack_line).collect()
}

fn stack_line(text: &str) -> Option<StackLine<'_>> {
    // A function's name has no space; the name of a file may.
    let (function, place) = text.trim().strip_prefix("at ")?.split_once(" (")?;
    let line = place.strip_suffix(')')?.rsplit(':').nth(1)?;
    Some(StackLine { function, line: line.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use segno_proto::events::{
        ActivityTaskCompletedEventAttributes, ActivityTaskScheduledEventAttributes, TimerFiredEventAttributes,
        WorkflowExecutionCompletedEventAttributes, WorkflowExecutionSignaledEventAttributes,
        WorkflowExecutionUpdateAcceptedEventAttributes, WorkflowTaskCompletedEventAttributes,
        WorkflowTaskScheduledEventAttributes, WorkflowTaskStartedEventAttributes,
    };

    use super::*;

    fn history(attributes: Vec<A>) -> Vec<HistoryEvent> {
        let event =
            |(id, attributes)| HistoryEvent { event_id: id, attributes: Some(attributes), ..Default::default() };
        (1..).zip(attributes).map(event).collect()
    }

    fn task() -> [A; 3] {
        [
            A::WorkflowTaskScheduledEventAttributes(WorkflowTaskScheduledEventAttributes::default()),
            A::WorkflowTaskStartedEventAttributes(WorkflowTaskStartedEventAttributes::default()),
            A::WorkflowTaskCompletedEventAttributes(WorkflowTaskCompletedEventAttributes::default()),
        ]
    }

    fn ids(events: &[&HistoryEvent]) -> Vec<i64> {
        events.iter().map(|event| event.event_id).collect()
    }

    #[test]
    fn each_turn_has_what_woke_it_and_what_it_commanded() {
        let scheduled = |completed| {
            A::ActivityTaskScheduledEventAttributes(ActivityTaskScheduledEventAttributes {
                workflow_task_completed_event_id: completed,
                ..Default::default()
            })
        };
        let mut all = vec![A::WorkflowExecutionStartedEventAttributes(Box::default())];
        all.extend(task()); // 2 to 4
        all.push(scheduled(4));
        all.push(A::WorkflowExecutionSignaledEventAttributes(WorkflowExecutionSignaledEventAttributes::default()));
        all.push(A::ActivityTaskCompletedEventAttributes(ActivityTaskCompletedEventAttributes::default()));
        all.extend(task()); // 8 to 10
        all.push(scheduled(10));
        all.extend(task()); // 12 to 14, of an update alone
        all.push(A::WorkflowExecutionUpdateAcceptedEventAttributes(
            WorkflowExecutionUpdateAcceptedEventAttributes::default(),
        ));
        all.push(A::TimerFiredEventAttributes(TimerFiredEventAttributes::default()));
        all.extend(task()); // 17 to 19
        all.push(A::WorkflowExecutionCompletedEventAttributes(WorkflowExecutionCompletedEventAttributes {
            workflow_task_completed_event_id: 19,
            ..Default::default()
        }));
        let history = history(all);
        let turns = turns(&history);
        let told: Vec<_> = turns
            .iter()
            .map(|turn| {
                let woken_by = turn.woken_by.map_or(0, |event| event.event_id);
                (woken_by, ids(&turn.also_taken), ids(&turn.commanded), turn.last)
            })
            .collect();
        assert_eq!(
            told,
            [(1, vec![], vec![5], 5), (7, vec![6], vec![11], 11), (15, vec![], vec![], 15), (16, vec![], vec![20], 20),]
        );
        for (event, turn) in [(1, 0), (5, 0), (6, 1), (10, 1), (15, 2), (20, 3)] {
            assert_eq!(turn_of(&turns, event), Some(turn), "{event}");
        }
        assert_eq!(turn_of(&turns, 21), None);
    }

    #[test]
    fn a_stack_trace_has_lines() {
        let trace = "at approve (order.flow:11:11)\nawaited by\nat order (my (new) order.flow:38:24)\nat nonsense";
        let line = |function, line| StackLine { function, line };
        assert_eq!(stack(trace), [line("approve", 11), line("order", 38)]);
    }
}
