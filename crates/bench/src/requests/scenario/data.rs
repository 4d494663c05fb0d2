//! Tables of test data: CSV files, and files with one JSON object on each line.

use std::fs::{self, File};
use std::path::Path;

use serde_json::{Map, Value};

use super::error::InvalidScenario;

/// A table of test data. Each iteration uses one row.
#[derive(Debug)]
pub(super) struct DataTable {
    columns: Vec<String>,
    /// The values of all rows, in the order of the columns.
    rows: Vec<Box<[String]>>,
}

impl DataTable {
    /// Reads the file `path`. The end of its name decides the format.
    ///
    /// # Errors
    /// Returns an error with file, line and column if the file cannot be read, has no rows, or has a row with
    /// other columns.
    pub(super) fn read(path: &Path) -> Result<Self, InvalidScenario> {
        let file = path.display().to_string();
        let whole = |message: String| InvalidScenario::new(file.clone(), 0, "", message);
        let metadata = fs::metadata(path).map_err(|error| whole(format!("cannot read it: {error}")))?;
        // Devices and named pipes have no length, so they could be endless.
        if !metadata.is_file() {
            return Err(whole("it is not a file".to_owned()));
        }
        let length = metadata.len();
        if length > FILE_BYTES_MAX {
            return Err(whole(format!("it has {length} bytes, but the maximum is {FILE_BYTES_MAX}")));
        }
        let table = match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Self::read_csv(path, &file),
            Some("jsonl" | "ndjson") => {
                let text = fs::read_to_string(path);
                Self::of_json_lines(&text.map_err(|error| whole(format!("cannot read it: {error}")))?, &file)
            }
            _ => Err(whole("the name of a data file ends with `.csv`, `.jsonl` or `.ndjson`".to_owned())),
        }?;
        if table.rows.is_empty() { Err(whole("it has no rows".to_owned())) } else { Ok(table) }
    }

    fn read_csv(path: &Path, file: &str) -> Result<Self, InvalidScenario> {
        let invalid = |error: &csv::Error| {
            let line = error.position().map_or(0, csv::Position::line);
            InvalidScenario::new(file, usize::try_from(line).unwrap_or(0), "", csv_message(error))
        };
        let opened = File::open(path).map_err(csv::Error::from).map_err(|error| invalid(&error))?;
        let mut reader = csv::Reader::from_reader(opened);
        let header = reader.headers().map_err(|error| invalid(&error))?;
        let columns: Vec<String> = header.iter().map(str::to_owned).collect();
        for (index, column) in columns.iter().enumerate() {
            if column.is_empty() || columns[..index].contains(column) {
                let message = "a column needs a name that no other column has";
                return Err(InvalidScenario::new(file, 1, column, message));
            }
        }
        let rows = reader.records().map(|row| row.map(|row| row.iter().map(str::to_owned).collect()));
        let rows = rows.collect::<Result<_, _>>().map_err(|error| invalid(&error))?;
        Ok(Self { columns, rows })
    }

    fn of_json_lines(text: &str, file: &str) -> Result<Self, InvalidScenario> {
        let mut table = Self { columns: Vec::new(), rows: Vec::new() };
        for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty()) {
            let object: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
                let column = error.column();
                let what = if error.is_data() { "it is not an object" } else { "it is not valid JSON" };
                InvalidScenario::new(file, line, "", format!("{what} (column {column})"))
            })?;
            if table.columns.is_empty() {
                table.columns = object.keys().cloned().collect();
            }
            if let Some(other) = object.keys().find(|name| !table.columns.contains(name)) {
                return Err(InvalidScenario::new(file, line, other, "the first row has no such member"));
            }
            let value = |column: &String| {
                object.get(column).map(as_text).ok_or_else(|| {
                    InvalidScenario::new(
                        file,
                        line,
                        column,
                        "the member is missing, but the first row has it",
                    )
                })
            };
            table.rows.push(table.columns.iter().map(value).collect::<Result<_, _>>()?);
        }
        Ok(table)
    }

    /// Returns the index of the column `name`.
    pub(super) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }

    /// Returns the names of the columns.
    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of rows, at least 1.
    pub(super) fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// Returns the value in a row and a column.
    pub(super) fn value(&self, row: usize, column: usize) -> &str {
        &self.rows[row][column]
    }
}

/// Returns a JSON value as the text that a template inserts: a string without quotes, nothing for `null`, and
/// JSON for other values.
pub(super) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

fn csv_message(error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("the row has {len} columns, but the first line has {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "the row is not valid UTF-8".to_owned(),
        csv::ErrorKind::Io(error) => format!("cannot read it: {error}"),
        _ => error.to_string(),
    }
}

/// Maximum size of a data file, because all rows stay in memory.
const FILE_BYTES_MAX: u64 = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, content: &[u8]) -> Result<DataTable, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        let start = format!("`{}/", directory.path().display());
        DataTable::read(&path).map_err(|error| error.to_string().replace(&start, "`"))
    }

    #[test]
    fn device_without_a_length_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.csv");
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let error = DataTable::read(&path).unwrap_err().to_string();
        assert!(error.ends_with("it is not a file"), "{error}");
    }

    #[test]
    fn csv_and_json_lines_have_the_same_rows() {
        let csv = read("a.csv", b"name,age\n\"Eve, \"\"E\"\"\",41\r\nBob,\n").unwrap();
        let json = b"{\"name\": \"Eve, \\\"E\\\"\", \"age\": 41}\n\n{\"age\": null, \"name\": \"Bob\"}\n";
        for table in [csv, read("a.jsonl", json).unwrap()] {
            let [name, age] = ["name", "age"].map(|name| table.column(name).unwrap());
            assert_eq!((table.row_count(), table.column("other")), (2, None));
            assert_eq!([table.value(0, name), table.value(0, age)], ["Eve, \"E\"", "41"]);
            assert_eq!([table.value(1, name), table.value(1, age)], ["Bob", ""]);
        }
    }

    #[test]
    fn invalid_data_files_are_errors_with_line_and_column() {
        for (name, content, error) in [
            (
                "a.csv",
                &b"a,b\n1,2\n3\n"[..],
                "`a.csv`, line 3: the row has 1 columns, but the first line has 2",
            ),
            (
                "a.csv",
                b"a,a\n1,2\n",
                "`a.csv`, line 1, key `a`: a column needs a name that no other column has",
            ),
            ("a.csv", b"a,b\n", "`a.csv`: it has no rows"),
            ("a.csv", b"", "`a.csv`: it has no rows"),
            ("a.csv", b"a\n\xff\n", "`a.csv`, line 2: the row is not valid UTF-8"),
            (
                "a.jsonl",
                b"{\"a\": 1}\n{\"b\": 1}",
                "`a.jsonl`, line 2, key `b`: the first row has no such member",
            ),
            (
                "a.jsonl",
                b"{\"a\": 1}\n{}",
                "`a.jsonl`, line 2, key `a`: the member is missing, but the first row has it",
            ),
            ("a.jsonl", b"[1]", "`a.jsonl`, line 1: it is not an object (column 0)"),
            ("a.jsonl", b"\n{", "`a.jsonl`, line 2: it is not valid JSON (column 1)"),
            ("a.txt", b"a", "`a.txt`: the name of a data file ends with `.csv`, `.jsonl` or `.ndjson`"),
        ] {
            assert_eq!(read(name, content).unwrap_err(), error);
        }
        let missing = DataTable::read(Path::new("/none/a.csv")).unwrap_err().to_string();
        assert!(missing.starts_with("`/none/a.csv`: cannot read it: "), "{missing}");
    }
}
