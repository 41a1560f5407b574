#include "parts.hpp"

#include <iostream>

int main() {
    std::cout << containers_report() << workers_report() << failures_report();
    return 0;
}
