//! Tests of the number of polls, with a server that counts them.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

fn scaling(min: usize, max: usize) -> Arc<Scaling> {
    Scaling::new(Pollers::Auto { min, max })
}

fn target(scaling: &Scaling) -> usize {
    scaling.lock().target
}

#[test]
fn answers_move_the_target_within_its_limits() {
    let scaling = scaling(2, 8);
    assert_eq!(target(&scaling), 5);
    for _ in 0..10 {
        scaling.answered(true, None);
    }
    assert_eq!(target(&scaling), 8);
    for _ in 0..10 {
        scaling.answered(false, None);
    }
    assert_eq!(target(&scaling), 2);
    scaling.answered(true, Some(4));
    assert_eq!(target(&scaling), 6);
    scaling.answered(true, None);
    assert_eq!(target(&scaling), 6, "the server decides once it said anything");
    scaling.answered(true, Some(-1));
    assert_eq!(target(&scaling), 5);
    scaling.failed(Code::ResourceExhausted);
    assert_eq!(target(&scaling), 2);
    let fixed = Scaling::new(Pollers::Fixed(3));
    fixed.answered(false, Some(-5));
    fixed.answered(true, Some(5));
    assert_eq!(target(&fixed), 3);
}

/// A server with so many tasks; polls that find none wait for a second.
async fn serve(pollers: Pollers, tasks: usize, slots: usize) -> (usize, usize, usize) {
    let scaling = Scaling::new(pollers);
    let (stop, stopped) = watch::channel(false);
    let left = Arc::new(AtomicUsize::new(tasks));
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let taken = Arc::new(AtomicUsize::new(0));
    let slots = Arc::new(tokio::sync::Semaphore::new(slots));
    let reserve = move || slots.clone().acquire_owned();
    let poll = {
        let (left, open, most) = (left.clone(), open.clone(), most.clone());
        move || {
            let (left, open, most) = (left.clone(), open.clone(), most.clone());
            async move {
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let task = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).ok();
                tokio::time::sleep(Duration::from_millis(if task.is_some() { 10 } else { 1000 })).await;
                open.fetch_sub(1, Ordering::SeqCst);
                Ok(PollAnswer { task, delta: None })
            }
        }
    };
    let take = {
        let taken = taken.clone();
        move |_: usize, slot: Result<_, _>| {
            taken.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                drop(slot);
            });
        }
    };
    let ending = PollStop { stop: stopped, server_ends_polls: true };
    let running = tokio::spawn(scaling.clone().poll(ending, reserve, poll, take));
    while taken.load(Ordering::SeqCst) < tasks {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    let at_rest = scaling.active();
    stop.send_replace(true);
    running.await.unwrap();
    assert_eq!(scaling.active(), 0);
    (taken.load(Ordering::SeqCst), most.load(Ordering::SeqCst), at_rest)
}

#[tokio::test(start_paused = true)]
async fn pollers_come_with_tasks_and_go_without() {
    assert_eq!(serve(Pollers::Auto { min: 1, max: 20 }, 500, 1000).await, (500, 20, 1));
    assert_eq!(serve(Pollers::Fixed(3), 100, 1000).await, (100, 3, 3));
}

#[tokio::test(start_paused = true)]
async fn no_poll_is_made_without_a_slot() {
    let (taken, most, _) = serve(Pollers::Auto { min: 1, max: 20 }, 50, 4).await;
    assert!(taken == 50 && most <= 4, "{taken} {most}");
}
