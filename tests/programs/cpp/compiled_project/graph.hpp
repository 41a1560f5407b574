// A generic weighted graph: enough templates to make the compiler allocate.
#pragma once

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

template <typename Node, typename Weight = long>
class Graph {
  public:
    void connect(const Node &from, const Node &to, Weight weight) {
        edges_[from].emplace_back(to, weight);
        edges_[to].emplace_back(from, weight);
    }

    std::optional<Weight> distance(const Node &from, const Node &to) const {
        using Entry = std::pair<Weight, Node>;
        std::map<Node, Weight> best{{from, Weight{}}};
        std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
        open.emplace(Weight{}, from);
        while (!open.empty()) {
            const auto [weight, node] = open.top();
            open.pop();
            if (node == to)
                return weight;
            if (weight > best.at(node))
                continue;
            const auto found = edges_.find(node);
            if (found == edges_.end())
                continue;
            for (const auto &[next, step] : found->second) {
                const auto [known, inserted] = best.try_emplace(next, weight + step);
                if (inserted || weight + step < known->second) {
                    known->second = weight + step;
                    open.emplace(weight + step, next);
                }
            }
        }
        return std::nullopt;
    }

    template <typename Visitor>
    void each_node(Visitor &&visit) const {
        for (const auto &[node, neighbours] : edges_)
            visit(node, neighbours.size());
    }

  private:
    std::map<Node, std::vector<std::pair<Node, Weight>>> edges_;
};
