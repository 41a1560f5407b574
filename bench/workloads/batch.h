/* Blocks that go from one thread to another together, in a batch that is a block itself, and the queue on
 * which they wait. */
#ifndef HAKMEM_BATCH_H
#define HAKMEM_BATCH_H

#include "bench.h"

struct batch {
    struct batch *next; /* the queue's */
    size_t count;
    void *blocks[];
};

/* Room for `capacity` blocks. --verify leaves it alone: its contents are pointers. */
struct batch *batch_new(size_t capacity);

/* Frees the blocks in the order in which they were put in, then the batch. */
void batch_free(struct batch *batch);

/* A bounded queue. Whoever must wait does so until it is half full or half empty: then waits are few, and
 * their number hardly depends on chance. Of each side there is one thread. */
struct batch_queue {
    _Alignas(BENCH_LINE) pthread_mutex_t mutex;
    pthread_cond_t has_room;
    pthread_cond_t has_work;
    struct batch *first;
    struct batch *last;
    size_t length;
    size_t most; /* at least 2 */
    bool closed;
    bool producer_waits;
    bool consumer_waits;
};

void batch_queue_init(struct batch_queue *queue, size_t most);

/* Waits while the queue is full. */
void batch_queue_put(struct batch_queue *queue, struct batch *batch);

/* To be called when no more batches will be put: ends the other side's waiting. */
void batch_queue_close(struct batch_queue *queue);

/* The oldest batch. Waits if there is none; NULL if the queue is closed, too. */
struct batch *batch_queue_take(struct batch_queue *queue);

/* The oldest batch, without waiting: NULL if there is none. */
struct batch *batch_queue_poll(struct batch_queue *queue);

#endif
