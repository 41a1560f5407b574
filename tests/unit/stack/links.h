// The links of chain.h: links.cpp, as each build has it.
#ifndef HAKMEM_TEST_STACK_LINKS_H
#define HAKMEM_TEST_STACK_LINKS_H

#include "stack/chain.h"

namespace hakmem_test {

void call_link_with_pointers(Link link, Chain &chain);
void call_link_without_pointers(Link link, Chain &chain);
void call_link_unoptimised(Link link, Chain &chain);

} // namespace hakmem_test

#endif
