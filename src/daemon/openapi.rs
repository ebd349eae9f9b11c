//! The OpenAPI document, made from the table of endpoints and the API's types.
//!
//! Its schemas are JSON Schema 2020-12, which OpenAPI 3.1 uses. OpenAPI cannot describe newline-delimited JSON and server-sent events:
//! there the schema is that of one line, or of one event's data, as the description says.

use super::endpoints::{self, Answer, Endpoint};
use super::work::LINES_TYPE;
use crate::api::{Code, Failure, Progress};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

const DESCRIPTION: &str = "\
JSON over HTTP on the Unix socket `daemon.sock` in the runtime directory, which only its owner can enter.

A GET answers with one JSON document. A request that does something (POST, DELETE) answers with HTTP status 200 and newline-delimited \
JSON: any number of `progress` lines, then one `result` or one `error`. If the connection is closed early, \
the work continues to its end; only waiting for the store stops. A request that is refused before anything began has an HTTP \
status of 400 or more and a `Failure` as its document.

Later versions add fields, events, codes and requests; ignore what you do not know.";

/// The document.
pub fn document() -> Value {
    let components = |settings: SchemaSettings| {
        SchemaGenerator::new(settings.with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        }))
    };
    // A field with a default may be left out of a request, and is always there in an answer.
    let mut asked = components(SchemaSettings::draft2020_12().for_deserialize());
    let mut told = components(SchemaSettings::draft2020_12().for_serialize());
    let mut paths = Map::new();
    for endpoint in endpoints::all() {
        let path = paths.entry(endpoint.path).or_insert_with(|| parameters(endpoint.path));
        path[endpoint.method] = operation(&endpoint, &mut asked, &mut told);
    }
    let mut schemas = asked.take_definitions(true);
    schemas.extend(told.take_definitions(true));
    schemas["Code"]["x-codes"] = codes();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Holdall",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
        },
        "servers": [{"url": "http://holdall", "description": "The Unix socket; the host's name does not matter"}],
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

fn parameters(path: &str) -> Value {
    let is_of_folder = path.starts_with("/v1/folders/");
    let named = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let of = |name: &str| {
        let description = match name {
            "name" if is_of_folder => "The folder's name on this device",
            "name" => "The drive's name on this device",
            _ => "The snapshot's label",
        };
        json!({
            "name": name, "in": "path", "required": true, "description": description, "schema": {"type": "string"},
        })
    };
    json!({"parameters": named.map(of).collect::<Vec<_>>()})
}

fn operation(endpoint: &Endpoint, asked: &mut SchemaGenerator, told: &mut SchemaGenerator) -> Value {
    let failed = content("application/json", reference::<Failure>(told));
    let (kind, what, schema) = match endpoint.answer {
        Answer::Document(schema) => ("application/json", "The document", schema(told).into()),
        Answer::Events(schema) => (
            "text/event-stream",
            "Server-sent events. The schema is that of an event's data",
            schema(told).into(),
        ),
        Answer::Lines(schema) => {
            let result = schema(told).into();
            (LINES_TYPE, "Lines of JSON. The schema is that of one line", line(result, told))
        }
    };
    let mut operation = json!({
        "operationId": operation_id(endpoint),
        "summary": endpoint.summary,
        "responses": {
            "200": {"description": what, "content": content(kind, schema)},
            "default": {"description": "It was refused, and nothing was changed", "content": failed},
        },
    });
    if let Some(query) = endpoint.query {
        operation["parameters"] = queries(query(asked));
    }
    if let Some(body) = endpoint.body {
        let schema = body(asked).into();
        operation["requestBody"] = json!({"required": true, "content": content("application/json", schema)});
    }
    operation
}

/// The fields of a query, each as a parameter. None is required.
fn queries(schema: schemars::Schema) -> Value {
    let fields = schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    let parameters = fields.into_iter().map(|(name, mut schema)| {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({"name": name, "in": "query", "required": false, "description": description, "schema": schema})
    });
    parameters.collect()
}

fn content(kind: &str, schema: Value) -> Value {
    json!({ kind: {"schema": schema} })
}

fn reference<T: JsonSchema>(schemas: &mut SchemaGenerator) -> Value {
    schemas.subschema_for::<T>().into()
}

/// One line of an answer that consists of lines.
fn line(result: Value, told: &mut SchemaGenerator) -> Value {
    let one = |key: &str, value: Value| {
        json!({
            "type": "object", "properties": {key: value}, "required": [key], "additionalProperties": false,
        })
    };
    json!({"oneOf": [
        one("progress", reference::<Progress>(told)),
        one("result", result),
        one("error", reference::<Failure>(told)),
    ]})
}

/// `get_drives_name_map`.
fn operation_id(endpoint: &Endpoint) -> String {
    let path = endpoint.path.trim_start_matches("/v1/").replace(['{', '}'], "").replace(['/', '.'], "_");
    format!("{}_{path}", endpoint.method)
}

/// The HTTP status and the exit code of each code.
fn codes() -> Value {
    let codes = Code::ALL.iter().map(|code| {
        let name = serde_json::to_value(code).expect("a code becomes a string");
        let name = name.as_str().unwrap_or_default().to_owned();
        (name, json!({"http_status": code.http_status(), "exit_code": code.exit_code()}))
    });
    Value::Object(codes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_has_a_schema_and_every_schema_has_words() {
        let document = document();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        fn references(value: &Value, found: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(|to| to.as_str()).map(str::to_owned));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 50);
        for to in found {
            let name = to.strip_prefix("#/components/schemas/").unwrap();
            assert!(schemas.contains_key(name), "{to}");
        }
        for (name, schema) in schemas {
            assert!(schema["description"].is_string(), "{name}");
            for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
                assert!(schema["description"].is_string(), "{name}.{field}: {schema}");
            }
        }
    }

    #[test]
    fn a_type_is_the_same_in_requests_and_answers() {
        let generator = |settings| SchemaGenerator::new(settings);
        let mut asked = generator(SchemaSettings::draft2020_12().for_deserialize());
        let mut told = generator(SchemaSettings::draft2020_12().for_serialize());
        for endpoint in endpoints::all() {
            operation(&endpoint, &mut asked, &mut told);
        }
        for (name, schema) in asked.definitions() {
            let other = told.definitions().get(name).unwrap_or(schema);
            assert_eq!(other, schema, "{name}");
        }
    }

    #[test]
    fn the_codes_are_all_there() {
        let document = document();
        let code = &document["components"]["schemas"]["Code"];
        let described = code["oneOf"].as_array().unwrap();
        let told: usize = described.iter().map(|one| one["enum"].as_array().map_or(1, Vec::len)).sum();
        assert_eq!(code["x-codes"].as_object().unwrap().len(), told);
    }

    #[test]
    fn the_document_beside_the_pages_is_the_current_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/ui/openapi.json");
        let there = std::fs::read_to_string(path).unwrap_or_default();
        let is_current = there == format!("{:#}\n", document());
        assert!(is_current, "{path} is old: holdall daemon openapi > ui/openapi.json, then ui/generate");
    }

    #[test]
    fn operations_have_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = endpoints::all().iter().map(operation_id).collect();
        assert_eq!(names.len(), endpoints::all().len());
        assert!(names.contains("get_drives_name_map"));
    }
}
