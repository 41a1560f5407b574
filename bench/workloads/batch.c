#include "batch.h"

struct batch *batch_new(size_t capacity) {
    struct batch *batch = bench_malloc_own(sizeof(struct batch) + capacity * sizeof(void *));
    batch->next = NULL;
    batch->count = 0;
    return batch;
}

void batch_free(struct batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        bench_free(batch->blocks[i]);
    }
    free(batch);
}

void batch_queue_init(struct batch_queue *queue, size_t most) {
    pthread_mutex_init(&queue->mutex, NULL);
    pthread_cond_init(&queue->has_room, NULL);
    pthread_cond_init(&queue->has_work, NULL);
    queue->most = most;
}

/* Unlocks the queue, then wakes the other side if it waits for the condition that now holds. */
static void unlock_and_wake(struct batch_queue *queue, bool *waits, bool enough, pthread_cond_t *condition) {
    bool wake = *waits && enough;
    if (wake) {
        *waits = false;
    }
    pthread_mutex_unlock(&queue->mutex);
    if (wake) {
        pthread_cond_signal(condition);
    }
}

void batch_queue_put(struct batch_queue *queue, struct batch *batch) {
    pthread_mutex_lock(&queue->mutex);
    queue->producer_waits = queue->length == queue->most;
    while (queue->producer_waits) {
        pthread_cond_wait(&queue->has_room, &queue->mutex);
    }
    if (queue->first == NULL) {
        queue->first = batch;
    } else {
        queue->last->next = batch;
    }
    queue->last = batch;
    queue->length++;
    unlock_and_wake(queue, &queue->consumer_waits, queue->length >= queue->most / 2, &queue->has_work);
}

void batch_queue_close(struct batch_queue *queue) {
    pthread_mutex_lock(&queue->mutex);
    queue->closed = true;
    unlock_and_wake(queue, &queue->consumer_waits, true, &queue->has_work);
}

static struct batch *take(struct batch_queue *queue, bool may_wait) {
    pthread_mutex_lock(&queue->mutex);
    queue->consumer_waits = may_wait && queue->length == 0 && !queue->closed;
    while (queue->consumer_waits) {
        pthread_cond_wait(&queue->has_work, &queue->mutex);
    }
    struct batch *batch = queue->first;
    if (batch != NULL) {
        queue->first = batch->next;
        queue->length--;
    }
    unlock_and_wake(queue, &queue->producer_waits, queue->length <= queue->most / 2, &queue->has_room);
    return batch;
}

struct batch *batch_queue_take(struct batch_queue *queue) {
    return take(queue, true);
}

struct batch *batch_queue_poll(struct batch_queue *queue) {
    return take(queue, false);
}
