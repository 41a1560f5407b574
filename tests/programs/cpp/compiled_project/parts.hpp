// What each source of the project contributes to the program's output.
#pragma once

#include <string>

std::string containers_report();
std::string workers_report();
std::string failures_report();
