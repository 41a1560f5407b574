//! A service's work in Rust, on the system allocator: worker threads parse lines into owned values and hand them
//! on, the main thread indexes them and answers queries. Its one argument is the number of lines for each worker.
//! Prints sums that depend on nothing else.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::mpsc;
use std::thread;

const WORKERS: u64 = 2;
const BATCH: u64 = 64;
const HISTORY: usize = 2000;

struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Number(u64),
    Text(String),
    List(Vec<Value>),
}

struct Record {
    key: String,
    fields: Vec<(String, Value)>,
}

fn line(numbers: &mut Numbers) -> String {
    let fields: Vec<String> = (0..2 + numbers.next() % 6)
        .map(|field| match numbers.next() % 3 {
            0 => format!("f{field}={}", numbers.next()),
            1 => format!("f{field}=text-{}", "x".repeat((numbers.next() % 90) as usize)),
            _ => format!("f{field}=[{};{};{}]", numbers.next(), numbers.next() % 10, numbers.next() % 100),
        })
        .collect();
    format!("account-{}|{}", numbers.next() % 5000, fields.join("|"))
}

fn value(text: &str) -> Value {
    if let Some(items) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return Value::List(items.split(';').map(value).collect());
    }
    match text.parse() {
        Ok(number) => Value::Number(number),
        Err(_) => Value::Text(text.to_string()),
    }
}

fn parse(line: &str) -> Record {
    let mut parts = line.split('|');
    let key = parts.next().expect("a key").to_string();
    let fields = parts
        .map(|part| part.split_once('=').expect("a field"))
        .map(|(name, text)| (name.to_string(), value(text)))
        .collect();
    Record { key, fields }
}

fn weight(value: &Value) -> u64 {
    match value {
        Value::Number(number) => number % 1000,
        Value::Text(text) => text.len() as u64,
        Value::List(items) => items.iter().map(weight).sum(),
    }
}

fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf29ce484222325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100000001b3))
}

fn produce(worker: u64, lines: u64, out: mpsc::SyncSender<Vec<Record>>) {
    let mut numbers = Numbers(worker + 1);
    let mut left = lines;
    while left > 0 {
        let batch = left.min(BATCH);
        left -= batch;
        let records = (0..batch).map(|_| parse(&line(&mut numbers))).collect();
        out.send(records).expect("the index takes records until all are sent");
    }
}

fn main() {
    let lines: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).expect("usage: ledger LINES");
    let (sender, receiver) = mpsc::sync_channel(16);
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let out = sender.clone();
            thread::spawn(move || produce(worker, lines, out))
        })
        .collect();
    drop(sender);

    let mut totals: HashMap<String, u64> = HashMap::new();
    let mut by_weight: BTreeMap<u64, u64> = BTreeMap::new();
    let mut history: VecDeque<Record> = VecDeque::new();
    let mut count = 0;
    for record in receiver.into_iter().flatten() {
        let sum: u64 = record.fields.iter().map(|(name, value)| name.len() as u64 + weight(value)).sum();
        *totals.entry(record.key.clone()).or_default() += sum;
        *by_weight.entry(sum).or_default() += 1;
        count += 1;
        history.push_back(record);
        if history.len() > HISTORY {
            history.pop_front();
        }
    }
    for worker in workers {
        worker.join().expect("a worker ends well");
    }

    assert_eq!(count, WORKERS * lines);
    assert_eq!(by_weight.values().sum::<u64>(), count);
    let mut accounts: Vec<String> = totals.iter().map(|(key, total)| format!("{key}={total}")).collect();
    accounts.sort_unstable();
    println!("{count} {} {:016x}", totals.values().sum::<u64>(), digest(&accounts.join(",")));
}
