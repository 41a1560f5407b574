//! Builds shapes in threads, sends them through channels and prints sums.

use shapes::{mixed, Index, Shape};
use std::sync::{mpsc, Arc, Mutex};
use std::thread;

fn main() {
    let (sender, receiver) = mpsc::channel::<Vec<Box<dyn Shape>>>();
    let total = Arc::new(Mutex::new(0u64));
    let producers: Vec<_> = (0..4)
        .map(|seed| {
            let sender = sender.clone();
            thread::spawn(move || {
                for round in 0..50 {
                    sender.send(mixed(400, seed * 100 + round)).expect("the receiver lives");
                }
            })
        })
        .collect();
    drop(sender);
    let mut names = Vec::new();
    for batch in receiver {
        *total.lock().expect("no thread panicked") += batch.iter().map(|shape| shape.area()).sum::<u64>();
        names.extend(batch.iter().map(|shape| shape.name()));
    }
    for producer in producers {
        producer.join().expect("no thread panicked");
    }
    let index = Index::build(names, |name| name.len() / 10);
    println!("area {}", total.lock().expect("no thread panicked"));
    for (length, names) in index.sorted() {
        println!("{length}: {} names, the middle one is {}", names.len(), names[names.len() / 2]);
    }
}
