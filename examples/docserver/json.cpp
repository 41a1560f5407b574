#include "json.h"

#include <cctype>
#include <charconv>
#include <cstdio>

namespace {

class Parser {
  public:
    explicit Parser(std::string_view text) : text_(text) {
    }

    Json document() {
        Json result = value();
        skip_space();
        if (at_ != text_.size()) {
            fail("more text after the value");
        }
        return result;
    }

  private:
    [[noreturn]] void fail(const char *what) const {
        throw std::invalid_argument("JSON, at byte " + std::to_string(at_) + ": " + what);
    }

    void skip_space() {
        while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) {
            ++at_;
        }
    }

    // The next character that is not space; 0 at the end.
    char peek() {
        skip_space();
        return at_ < text_.size() ? text_[at_] : '\0';
    }

    bool accept(char c) {
        if (peek() != c) {
            return false;
        }
        ++at_;
        return true;
    }

    void expect(char c, const char *otherwise) {
        if (!accept(c)) {
            fail(otherwise);
        }
    }

    bool accept_word(std::string_view word) {
        if (text_.substr(at_, word.size()) != word) {
            return false;
        }
        at_ += word.size();
        return true;
    }

    Json value() {
        switch (peek()) {
        case '{':
            return {object()};
        case '[':
            return {array()};
        case '"':
            return {string()};
        default:
            return word_or_number();
        }
    }

    JsonObject object() {
        JsonObject result;
        expect('{', "'{' expected");
        if (accept('}')) {
            return result;
        }
        do {
            std::string name = string();
            expect(':', "':' expected");
            result.insert_or_assign(std::move(name), value());
        } while (accept(','));
        expect('}', "'}' or ',' expected");
        return result;
    }

    JsonArray array() {
        JsonArray result;
        expect('[', "'[' expected");
        if (accept(']')) {
            return result;
        }
        do {
            result.push_back(value());
        } while (accept(','));
        expect(']', "']' or ',' expected");
        return result;
    }

    std::string string() {
        expect('"', "a string expected");
        std::string result;
        while (at_ < text_.size() && text_[at_] != '"') {
            if (text_[at_] == '\\' && ++at_ == text_.size()) {
                break;
            }
            result += text_[at_++];
        }
        if (at_ == text_.size()) {
            fail("a string without its end");
        }
        ++at_;
        return result;
    }

    Json word_or_number() {
        if (accept_word("null")) {
            return {nullptr};
        }
        if (accept_word("true")) {
            return {true};
        }
        if (accept_word("false")) {
            return {false};
        }
        double number = 0;
        const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
        if (error != std::errc()) {
            fail("a value expected");
        }
        at_ = static_cast<size_t>(end - text_.data());
        return {number};
    }

    std::string_view text_;
    size_t at_ = 0;
};

void write_string(const std::string &text, std::string &out) {
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        out += c;
    }
    out += '"';
}

struct Writer {
    std::string &out;

    void operator()(std::nullptr_t) const {
        out += "null";
    }
    void operator()(bool truth) const {
        out += truth ? "true" : "false";
    }
    void operator()(double number) const {
        char digits[32];
        const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
        out.append(digits, end);
    }
    void operator()(const std::string &text) const {
        write_string(text, out);
    }
    void operator()(const JsonArray &array) const {
        const char *separator = "[";
        for (const Json &element : array) {
            out += separator;
            write_json(element, out);
            separator = ",";
        }
        out += array.empty() ? "[]" : "]";
    }
    void operator()(const JsonObject &object) const {
        const char *separator = "{";
        for (const auto &[name, member] : object) {
            out += separator;
            write_string(name, out);
            out += ':';
            write_json(member, out);
            separator = ",";
        }
        out += object.empty() ? "{}" : "}";
    }
};

} // namespace

const Json &Json::at(std::string_view name) const {
    const auto &members = std::get<JsonObject>(value);
    const auto found = members.find(name);
    if (found == members.end()) {
        throw std::out_of_range("JSON: no member '" + std::string(name) + "'");
    }
    return found->second;
}

Json parse_json(std::string_view text) {
    return Parser(text).document();
}

void write_json(const Json &value, std::string &out) {
    std::visit(Writer{out}, value.value);
}
