//! Finds numbers that are not finite (NaN and infinities), because JSON cannot express them. `serde_json`
//! writes such numbers as `null` without an error.
//!
//! [`Finder`] is a serializer without output. The serializer keeps the path to the current value, and
//! stops at the first number that is not finite.

use alloc::string::{String, ToString};
use core::fmt::{self, Display, Write as _};

use serde::Serialize;
use serde::ser::{self, Serializer};

/// Error: a value contains a number that is not finite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotFinite {
    /// The path to the number, such as `points[2].x`. The path is empty if the whole value is this
    /// number.
    pub path: String,
    /// The number: `NaN`, `inf` or `-inf`.
    pub number: String,
}

/// Checks that all numbers of `value` are finite.
///
/// # Errors
/// A number is not finite. The error names the first number that is not finite.
pub fn check_finite(value: &impl Serialize) -> Result<(), NotFinite> {
    let mut finder = Finder { path: String::new() };
    match value.serialize(&mut finder) {
        Err(Stop::Found(number)) => Err(NotFinite { path: finder.path, number }),
        // The caller sees other errors later, when it writes the value.
        Ok(()) | Err(Stop::Other) => Ok(()),
    }
}

impl Display for NotFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, number } = self;
        match path.as_str() {
            "" => write!(f, "the value is {number}, which JSON cannot express"),
            path => write!(f, "`{path}` is {number}, which JSON cannot express"),
        }
    }
}

impl core::error::Error for NotFinite {}

struct Finder {
    path: String,
}

/// The reason why the search ended early.
#[derive(Debug)]
enum Stop {
    Found(String),
    Other,
}

impl Finder {
    fn check(number: f64) -> Result<(), Stop> {
        if number.is_finite() { Ok(()) } else { Err(Stop::Found(number.to_string())) }
    }

    /// Visits a member of an object. If the search finds a number inside of the member, the path still
    /// contains the name of the member.
    fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Stop> {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        value.serialize(&mut *self)?;
        self.path.truncate(length);
        Ok(())
    }

    fn element<T: Serialize + ?Sized>(&mut self, index: usize, value: &T) -> Result<(), Stop> {
        let length = self.path.len();
        // Writing to a `String` cannot fail.
        let _ = write!(self.path, "[{index}]");
        value.serialize(&mut *self)?;
        self.path.truncate(length);
        Ok(())
    }

    /// Begins to visit an enum variant. `serde_json` writes the variant as an object with the member
    /// `variant`.
    fn variant(&mut self, variant: &str) -> Within<'_> {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(variant);
        Within { finder: self, index: 0, key: String::new(), length: Some(length) }
    }

    const fn within(&mut self) -> Within<'_> {
        Within { finder: self, index: 0, key: String::new(), length: None }
    }
}

/// Visits the elements or members of one value.
struct Within<'f> {
    finder: &'f mut Finder,
    index: usize,
    key: String,
    /// For an enum variant, the length of the path before the name of the variant. `None` for all other
    /// values.
    length: Option<usize>,
}

impl Within<'_> {
    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        self.finder.element(self.index, value)?;
        self.index += 1;
        Ok(())
    }

    fn finish(self) {
        if let Some(length) = self.length {
            self.finder.path.truncate(length);
        }
    }
}

macro_rules! without_numbers {
    ($($method:ident: $type:ty),*) => {
        $(fn $method(self, _: $type) -> Result<(), Stop> {
            Ok(())
        })*
    };
}

impl<'f> Serializer for &'f mut Finder {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Within<'f>;
    type SerializeTuple = Within<'f>;
    type SerializeTupleStruct = Within<'f>;
    type SerializeTupleVariant = Within<'f>;
    type SerializeMap = Within<'f>;
    type SerializeStruct = Within<'f>;
    type SerializeStructVariant = Within<'f>;

    without_numbers!(
        serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64,
        serialize_i128: i128, serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64,
        serialize_u128: u128, serialize_char: char, serialize_str: &str, serialize_bytes: &[u8],
        serialize_unit_struct: &'static str
    );

    fn serialize_f32(self, number: f32) -> Result<(), Stop> {
        Finder::check(number.into())
    }

    fn serialize_f64(self, number: f64) -> Result<(), Stop> {
        Finder::check(number)
    }

    fn serialize_none(self) -> Result<(), Stop> {
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Stop> {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Result<(), Stop> {
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Stop> {
        self.member(variant, value)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Within<'f>, Stop> {
        Ok(self.within())
    }

    fn serialize_tuple(self, _: usize) -> Result<Within<'f>, Stop> {
        Ok(self.within())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Within<'f>, Stop> {
        Ok(self.within())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Within<'f>, Stop> {
        Ok(self.variant(variant))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Within<'f>, Stop> {
        Ok(self.within())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Within<'f>, Stop> {
        Ok(self.within())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Within<'f>, Stop> {
        Ok(self.variant(variant))
    }

    fn collect_str<T: Display + ?Sized>(self, _: &T) -> Result<(), Stop> {
        Ok(())
    }
}

macro_rules! with_elements {
    ($($traits:ident: $method:ident),*) => {
        $(impl ser::$traits for Within<'_> {
            type Ok = ();
            type Error = Stop;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
                self.element(value)
            }

            fn end(self) -> Result<(), Stop> {
                self.finish();
                Ok(())
            }
        })*
    };
}

with_elements!(
    SerializeSeq: serialize_element, SerializeTuple: serialize_element, SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
);

macro_rules! with_fields {
    ($($traits:ident),*) => {
        $(impl ser::$traits for Within<'_> {
            type Ok = ();
            type Error = Stop;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Stop> {
                self.finder.member(name, value)
            }

            fn end(self) -> Result<(), Stop> {
                self.finish();
                Ok(())
            }
        })*
    };
}

with_fields!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Within<'_> {
    type Ok = ();
    type Error = Stop;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Stop> {
        self.key = match serde_json::to_value(key) {
            Ok(serde_json::Value::String(key)) => key,
            Ok(key) => key.to_string(),
            Err(_) => return Err(Stop::Other),
        };
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        self.finder.member(&self.key, value)
    }

    fn end(self) -> Result<(), Stop> {
        self.finish();
        Ok(())
    }
}

impl ser::Error for Stop {
    fn custom<T: Display>(_: T) -> Self {
        Self::Other
    }
}

impl Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Found(number) => number,
            Self::Other => "the value cannot be serialized",
        })
    }
}

impl core::error::Error for Stop {}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::format;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    #[derive(Serialize)]
    struct Data {
        points: Vec<Point>,
        shape: Shape,
        #[serde(flatten)]
        others: BTreeMap<&'static str, f32>,
        nothing: Option<f64>,
    }

    #[derive(Serialize, Default)]
    struct Point {
        x: f64,
    }

    #[derive(Serialize)]
    enum Shape {
        None,
        Circle(f64),
        Line(f64, f64),
        Box { height: Option<f64> },
    }

    fn data() -> Data {
        Data {
            points: vec![Point::default(), Point::default()],
            shape: Shape::None,
            others: BTreeMap::new(),
            nothing: None,
        }
    }

    fn invalid_path(data: &Data) -> String {
        check_finite(data).unwrap_err().path
    }

    #[test]
    fn check_finite_returns_path_of_non_finite_number() {
        assert_eq!(check_finite(&data()), Ok(()));
        let mut with_points = data();
        with_points.points[1].x = f64::NAN;
        assert_eq!(invalid_path(&with_points), "points[1].x");
        let others = BTreeMap::from([("fine", 1.0), ("large", f32::INFINITY)]);
        assert_eq!(invalid_path(&Data { others, ..data() }), "large");
        for (shape, path) in [
            (Shape::Circle(f64::NAN), "shape.Circle"),
            (Shape::Line(0.0, f64::NEG_INFINITY), "shape.Line[1]"),
            (Shape::Box { height: Some(f64::NAN) }, "shape.Box.height"),
        ] {
            assert_eq!(invalid_path(&Data { shape, ..data() }), path);
        }
        let shapes = vec![Shape::Line(0.0, 0.0), Shape::Box { height: None }, Shape::Circle(f64::NAN)];
        assert_eq!(
            check_finite(&shapes).unwrap_err().path,
            "[2].Circle",
            "the path should not contain the variants before it"
        );
        let error = check_finite(&f64::NEG_INFINITY).unwrap_err();
        assert_eq!(format!("{error}"), "the value is -inf, which JSON cannot express");
    }
}
