"""g++ and clang++ compiling a large C++ file that is generated: templates, containers, many functions."""

from collections.abc import Callable

from bench.programs import process
from bench.programs.job import Job, run_job
from bench.programs.program import Figures, Option, Order, Program

_HEADERS = ("algorithm", "functional", "map", "memory", "string", "unordered_map", "variant", "vector")

# One of many like it; every type in it is another one for the compiler.
_UNIT = """
namespace unit_@ {
struct record {
    int key = @;
    std::string name = "record @";
    std::vector<double> values;
    bool operator<(const record &other) const { return key < other.key; }
};
template <class Value> struct tree {
    Value value;
    std::unique_ptr<tree> left, right;
    void insert(Value added) {
        auto &side = added < value ? left : right;
        if (side) {
            side->insert(std::move(added));
        } else {
            side = std::make_unique<tree>(tree{std::move(added), nullptr, nullptr});
        }
    }
    template <class Visit> void walk(Visit visit) const {
        if (left) left->walk(visit);
        visit(value);
        if (right) right->walk(visit);
    }
};
using any = std::variant<record, tree<record>, std::map<std::string, record>>;
struct measure {
    std::size_t operator()(const record &one) const { return one.name.size(); }
    std::size_t operator()(const tree<record> &many) const {
        std::size_t sum = 0;
        many.walk([&sum](const record &one) { sum += one.values.size(); });
        return sum;
    }
    std::size_t operator()(const std::map<std::string, record> &named) const { return named.size(); }
};
std::size_t work(std::vector<record> records) {
    std::sort(records.begin(), records.end());
    tree<record> root{record{}, nullptr, nullptr};
    std::unordered_map<int, std::function<std::size_t(const any &)>> actions;
    std::map<std::string, record> named;
    for (auto &one : records) {
        named.emplace(one.name, one);
        actions[one.key] = [offset = one.key](const any &item) {
            return std::visit(measure{}, item) + static_cast<std::size_t>(offset);
        };
        root.insert(one);
    }
    any items[] = {any{record{}}, any{std::move(root)}, any{std::move(named)}};
    std::size_t sum = 0;
    for (auto &[key, action] : actions) {
        sum += action(items[static_cast<std::size_t>(key) % 3]);
    }
    return sum;
}
}
"""


def _compiled_with(command: str, package: str) -> Callable[[Order], Figures]:
    def run(order: Order) -> Figures:
        compiler = process.require(command, package)
        units = order.options["units"]
        source = order.scratch / "large.cpp"
        source.write_text(_source(units), encoding="utf-8")
        result = order.scratch / "large.o"
        return run_job(
            Job(
                command=(compiler, "-std=c++17", "-O1", "-c", source, "-o", result),
                operations=units,
                environment={"TMPDIR": str(order.scratch)},
                result=result,
            ),
            order,
        )

    return run


def _source(units: int) -> str:
    includes = "".join(f"#include <{header}>\n" for header in _HEADERS)
    return includes + "".join(_UNIT.replace("@", str(unit)) for unit in range(units))


def _program(command: str, package: str) -> Program:
    return Program(
        name=command,
        stands_for=f"A build: {command} compiling a large C++ file of templates and containers.",
        options=(Option("units", 4, "parts of the file, each with its own types and templates"),),
        run=_compiled_with(command, package),
    )


PROGRAMS = (_program("g++", "g++"), _program("clang++", "clang"))
