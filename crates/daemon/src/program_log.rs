//! The lines of the program's own log (the error log) as JSON.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use serde_json::{Map, Value};
use thruway_net::Clock;
use tracing::Event;
use tracing::field::{Field, Visit};

/// `true` if the config of the running service sets `log.format` to `json`.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Returns `true` if the program's own log has JSON lines, because `log.format` of the config is `json`. A
/// reload can change the value.
pub fn logs_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Sets the format of the program's own log.
pub(crate) fn set_json(is_json: bool) {
    IS_JSON.store(is_json, Ordering::Relaxed);
}

/// Returns an event as a JSON line with a line break: an object with `timestamp`, `level`, `target`,
/// `message` and `fields`.
pub fn event_as_json(event: &Event<'_>) -> String {
    let mut values = EventValues::default();
    event.record(&mut values);
    let metadata = event.metadata();
    line(metadata.level().as_str(), metadata.target(), &values.message, values.fields)
}

/// Returns a message as a JSON line with a line break, as [`event_as_json`] does for an event.
pub fn message_as_json(level: &str, target: &str, message: &str) -> String {
    line(level, target, message, Map::new())
}

fn line(level: &str, target: &str, message: &str, fields: Map<String, Value>) -> String {
    line_at(Clock::system().time_of_day_exact(), [level, target, message], fields)
}

fn line_at(time: SystemTime, [level, target, message]: [&str; 3], fields: Map<String, Value>) -> String {
    let time = humantime::format_rfc3339_micros(time).to_string();
    let mut text = String::from("{");
    for (name, value) in [("timestamp", &*time), ("level", level), ("target", target), ("message", message)] {
        // Writing to a string cannot fail.
        let _ = write!(text, "\"{name}\":{},", Value::from(value));
    }
    if fields.is_empty() {
        text.pop();
    } else {
        let _ = write!(text, "\"fields\":{}", Value::Object(fields));
    }
    text.push_str("}\n");
    text
}

/// The message and the fields of an event.
#[derive(Default)]
struct EventValues {
    message: String,
    fields: Map<String, Value>,
}

impl EventValues {
    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        match (field.name(), value.into()) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                self.fields.insert(name.to_owned(), value);
            }
        }
    }
}

impl Visit for EventValues {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, value);
    }

    /// A number that is not finite becomes `null`, because JSON has no such number.
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Metadata, Subscriber};

    use super::*;

    /// Collects the lines of all events.
    struct Lines(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Lines {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            self.0.lock().unwrap().push(event_as_json(event));
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn event_becomes_one_json_line_with_its_fields() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        tracing::subscriber::with_default(Lines(lines.clone()), || {
            let error = "a \"quoted\"\nline";
            tracing::warn!(target: "thruway", %error, count = 5, share = 0.5, is_new = true, "it failed\r\nagain");
            tracing::info!("done");
        });
        let lines = lines.lock().unwrap();
        assert!(
            lines.iter().all(|line| line.ends_with("}\n") && line.matches('\n').count() == 1),
            "{lines:?}"
        );
        let values: Vec<Value> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let fields = serde_json::json!({
            "error": "a \"quoted\"\nline", "count": 5, "share": 0.5, "is_new": true
        });
        assert_eq!((&values[0]["level"], &values[0]["target"]), (&"WARN".into(), &"thruway".into()));
        assert_eq!((&values[0]["message"], &values[0]["fields"]), (&"it failed\r\nagain".into(), &fields));
        assert_eq!((&values[1]["message"], values[1].get("fields")), (&"done".into(), None));
    }

    #[test]
    fn line_begins_with_the_time() {
        let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_millis(1500);
        let line = line_at(time, ["ERROR", "panic", "\u{1}"], Map::new());
        assert_eq!(
            line,
            "{\"timestamp\":\"1970-01-01T00:00:01.500000Z\",\"level\":\"ERROR\",\"target\":\"panic\",\
             \"message\":\"\\u0001\"}\n"
        );
    }
}
