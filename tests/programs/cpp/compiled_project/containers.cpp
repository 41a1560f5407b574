#include "graph.hpp"
#include "parts.hpp"

#include <deque>
#include <list>
#include <memory>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>

namespace {

using Value = std::variant<long, double, std::string, std::vector<int>>;

struct Describe {
    std::string operator()(long value) const {
        return "long " + std::to_string(value);
    }
    std::string operator()(double value) const {
        return "double " + std::to_string(value);
    }
    std::string operator()(const std::string &value) const {
        return "string " + value;
    }
    std::string operator()(const std::vector<int> &value) const {
        return "vector " + std::to_string(std::accumulate(value.begin(), value.end(), 0));
    }
};

template <std::size_t... Is>
auto squares(std::index_sequence<Is...>) {
    return std::vector<std::size_t>{(Is * Is)...};
}

template <typename Container>
long sum_of(const Container &container) {
    return std::accumulate(container.begin(), container.end(), 0L);
}

} // namespace

std::string containers_report() {
    std::ostringstream out;
    Graph<std::string> cities;
    Graph<std::pair<int, int>> grid;
    for (int i = 0; i < 400; i++)
        cities.connect("city number " + std::to_string(i), "city number " + std::to_string(i * 7 % 400),
                       i % 13 + 1);
    for (int x = 0; x < 40; x++)
        for (int y = 0; y < 40; y++) {
            grid.connect({x, y}, {x + 1, y}, (x * y) % 5 + 1);
            grid.connect({x, y}, {x, y + 1}, (x + y) % 7 + 1);
        }
    out << "distance " << cities.distance("city number 1", "city number 343").value_or(-1) << ' '
        << grid.distance({0, 0}, {40, 40}).value_or(-1) << '\n';

    std::unordered_map<std::string, std::unique_ptr<std::list<long>>> lists;
    for (long i = 0; i < 20000; i++) {
        auto &list = lists["list " + std::to_string(i % 97)];
        if (!list)
            list = std::make_unique<std::list<long>>();
        list->push_back(i);
        if (i % 3 == 0)
            list->pop_front();
    }
    long total = 0;
    for (const auto &[name, list] : lists)
        total += sum_of(*list) + static_cast<long>(name.size());
    out << "lists " << total << '\n';

    std::deque<Value> values;
    for (int i = 0; i < 30; i++) {
        values.emplace_back(static_cast<long>(i));
        values.emplace_front(i / 4.0);
        values.emplace_back(std::string(static_cast<std::size_t>(i), 'v'));
        values.emplace_front(std::vector<int>(static_cast<std::size_t>(i), i));
    }
    for (const auto &value : values)
        out << std::visit(Describe{}, value) << ';';
    out << '\n' << sum_of(squares(std::make_index_sequence<64>{})) << '\n';

    const std::string text = "alpha=1, beta=22, gamma=333";
    const std::regex pair("(\\w+)=(\\d+)");
    for (std::sregex_iterator match(text.begin(), text.end(), pair), end; match != end; ++match)
        out << (*match)[2] << ' ' << (*match)[1] << '\n';
    return out.str();
}
