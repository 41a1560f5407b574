// JSON as a tree of values, each object, array and string in memory of its own.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

struct Json;
using JsonArray = std::vector<Json>;
using JsonObject = std::map<std::string, Json, std::less<>>;

struct Json {
    std::variant<std::nullptr_t, bool, double, std::string, JsonArray, JsonObject> value;

    // The member of an object. Throws std::out_of_range if there is none.
    const Json &at(std::string_view name) const;
    const std::string &text() const {
        return std::get<std::string>(value);
    }
    const JsonArray &array() const {
        return std::get<JsonArray>(value);
    }
};

// Throws std::invalid_argument, which says where, if `text` is not one JSON value.
Json parse_json(std::string_view text);

// Appends `value` to `out`, with the members of objects in the order of their names.
void write_json(const Json &value, std::string &out);
