// Barriers among any number of cores. Every ordered pair of cores has a line of shared memory: the first core counts in
// it how often it has synchronised with the second, with the tag and the trap id of the last two times. A core posts
// to the lines of all its peers, then waits until the count of each peer has reached its own. Both cores of a pair see
// the same two tags, so both detect that these differ, or that the other core has ended.

enum { LINE_BYTES = 64 };

struct line {
    shared times;
    shared ended; // 1 once the first core has ended
    struct record {
        int64_t tag, trap;
    } records[2]; // two are enough, as one core is at most one ahead of the other
    int64_t unused[2];
};
_Static_assert(sizeof(struct line) == LINE_BYTES, "a cache line");

struct barrier_arguments {
    int64_t lines; // a slot of the frame
    int64_t tag;   // cores that meet pass the same one
    int64_t trap;
    int64_t peers;
    struct peer {
        int64_t own, other; // the lines of this core for the peer and of the peer for this core, in bytes
        int64_t rank;
    } peer[];
};

// Wait until the peer has come; false if it has ended instead, or the launch is cancelled.
static bool has_come(struct frame *frame, struct line *other, int64_t times) {
    for (int64_t looks = 0; atomic_load_explicit(&other->times, memory_order_acquire) < times; looks++) {
        if (atomic_load_explicit(&other->ended, memory_order_acquire)) // it may have come before it ended
            return atomic_load_explicit(&other->times, memory_order_acquire) >= times;
        if (looks > SPINS) {
            sched_yield();
            poll_now(frame, -ANYWHERE);
            if (frame->status->trap != 0)
                return false;
        }
    }
    return true;
}

void nki_barrier(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct barrier_arguments *barrier = (const void *)args;
    char *lines = ((char **)frame)[barrier->lines];
    struct status *status = frame->status;
    if (status->trap != 0)
        return;
    for (int64_t i = 0; i < barrier->peers; i++) {
        struct line *own = (struct line *)(lines + barrier->peer[i].own);
        int64_t times = atomic_load_explicit(&own->times, memory_order_relaxed) + 1;
        own->records[times & 1] = (struct record){barrier->tag, barrier->trap};
        atomic_store_explicit(&own->times, times, memory_order_release);
    }
    for (int64_t i = 0; i < barrier->peers; i++) {
        struct line *own = (struct line *)(lines + barrier->peer[i].own);
        struct line *other = (struct line *)(lines + barrier->peer[i].other);
        int64_t times = atomic_load_explicit(&own->times, memory_order_relaxed);
        bool came = has_come(frame, other, times);
        const struct record *record = &other->records[times & 1];
        if (came && record->tag == barrier->tag)
            continue;
        if (status->trap == 0) { // else it is cancelled
            status->trap = barrier->trap;
            status->operand = DEADLOCK;
            status->index = came ? record->trap : 0;
            status->peer = barrier->peer[i].rank;
        }
        return;
    }
}

// Tell the peers of core `rank` that it has ended.
static void end_core(struct line *lines, int64_t rank, int64_t cores) {
    for (int64_t peer = 0; peer < cores; peer++)
        atomic_store_explicit(&lines[rank * cores + peer].ended, 1, memory_order_release);
}

// ---------------------------------------------------------------------------------------------------------------------
// Thread pools. The thread that launches leads: it alone walks the table. At a region it offers a work item, takes
// chunks of its partitions itself, and goes on when all are done; workers take those that are free. So a worker that is
// late, or that the operating system does not run, costs its help only, and a leader without workers does all the work.
//
// A leader offers nothing new before all chunks are done, so the words of an item stay as long as a chunk of it can be
// taken. Workers look at the chunks for some microseconds, then sleep until the next item. They belong to no
// interpreter: they run native code only, without Python's lock, and handle no signals.

enum { MOST_CHUNKS = 32 }; // of an item
#define CHUNK_MASK ((INT64_C(1) << MOST_CHUNKS) - 1)
#define LINE __attribute__((aligned(LINE_BYTES))) // what different threads write lies in different lines

typedef void parallel(void (*member)(void *), void *argument, uint32_t threads, uint32_t flags); // GOMP_parallel

struct thread_pool {
    LINE shared chunks; // the number of the item, and in the lower half a mask of its chunks that are free
    LINE shared done;   // chunks
    LINE shared busy;   // 1: it helps a launch
    LINE shared sleepers;
    shared stop;
    LINE struct item {
        shared frames, step;          // of the workers: the address of the first and the bytes from one to the next
        shared table, entries, args;  // the address of the entries, their number, and the address of their arguments
        shared size, chunks, members; // partitions of a chunk, number of chunks, threads that may take chunks
    } item;
    parallel *parallel; // of OpenMP, which has the workers; 0: they are threads of ours
    int (*thread_number)(void);
    LINE char mutex[128];
    LINE char condition[128];
};

static int64_t word(shared *place) { return atomic_load_explicit(place, memory_order_relaxed); }

static void set(shared *place, int64_t value) { atomic_store_explicit(place, value, memory_order_relaxed); }

// A pool without workers of its own, which is never freed: a worker may look at it after it has ended. `parallel` and
// `thread_number` are GOMP_parallel and omp_get_thread_num of the runtime of which the workers are, or 0.
struct thread_pool *nki_new_pool(parallel *parallel, int (*thread_number)(void)) {
    char *block = calloc(1, sizeof(struct thread_pool) + 64);
    if (!block)
        return 0;
    struct thread_pool *pool = (struct thread_pool *)(block + (-(int64_t)block & 63));
    pool->parallel = parallel;
    pool->thread_number = thread_number;
    pthread_mutex_init(pool->mutex, 0);
    pthread_cond_init(pool->condition, 0);
    return pool;
}

static void wake(struct thread_pool *pool) {
    if (atomic_load(&pool->sleepers) > 0) {
        pthread_mutex_lock(pool->mutex);
        pthread_cond_broadcast(pool->condition);
        pthread_mutex_unlock(pool->mutex);
    }
}

// Let the workers end, which may sleep; a launch that they help goes on without them.
void nki_stop_pool(struct thread_pool *pool) {
    atomic_store(&pool->stop, 1);
    wake(pool);
}

// Take one of the free `chunks`; -1 if these have changed. It is the first one from `preferred` on, so that a thread
// finds in its cache what it had there before.
static int64_t take_chunk(struct thread_pool *pool, int64_t chunks, int64_t preferred) {
    uint64_t mask = chunks & CHUNK_MASK, beyond = mask >> preferred << preferred;
    int64_t chunk = __builtin_ctzll(beyond ? beyond : mask);
    int64_t after = chunks & ~(INT64_C(1) << chunk);
    return atomic_compare_exchange_strong(&pool->chunks, &chunks, after) ? chunk : -1;
}

// Sleep until the item of `chunks` is past.
static void sleep_on(struct thread_pool *pool, int64_t chunks) {
    pthread_mutex_lock(pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (atomic_load(&pool->chunks) >> MOST_CHUNKS == chunks >> MOST_CHUNKS && !atomic_load(&pool->stop))
        pthread_cond_wait(pool->condition, pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    pthread_mutex_unlock(pool->mutex);
}

// Take chunks of what the pool is offered, as worker `index`, until the pool is to stop.
static void work(struct thread_pool *pool, int64_t index) {
    struct item *item = &pool->item;
    for (int64_t idle = 0; !atomic_load(&pool->stop);) {
        int64_t free = atomic_load(&pool->chunks);
        // These words may be those of the next item; then the chunks have changed, and none is taken.
        int64_t frames = word(&item->frames), step = word(&item->step), table = word(&item->table);
        int64_t entries = word(&item->entries), args = word(&item->args), size = word(&item->size);
        int64_t chunks = word(&item->chunks), members = word(&item->members);
        if ((free & CHUNK_MASK) == 0 || index >= members) {
            nki_pause();
            if (++idle > SPINS) {
                sleep_on(pool, free);
                idle = 0;
            }
            continue;
        }
        idle = 0;
        int64_t chunk = take_chunk(pool, free, index * chunks / members);
        if (chunk < 0)
            continue;
        struct frame *frame = (struct frame *)(frames + (index - 1) * step);
        if (!is_cancelled(frame))
            walk_range((void *)table, entries, (void *)args, frame, chunk * size, (chunk + 1) * size);
        atomic_fetch_add(&pool->done, 1);
    }
}

struct worker {
    struct thread_pool *pool;
    int64_t index;
};

static void *run_worker(void *argument) {
    const struct worker *worker = argument;
    work(worker->pool, worker->index);
    return 0;
}

// Start worker `index`: its thread; 0 if the operating system refuses, and the work is done without it.
int64_t nki_start_worker(struct thread_pool *pool, int64_t index) {
    int64_t thread = 0;
    struct worker *worker = calloc(1, sizeof(struct worker)); // which stays, like the pool
    if (!worker)
        return 0;
    *worker = (struct worker){pool, index};
    return pthread_create(&thread, 0, run_worker, worker) == 0 ? thread : 0;
}

// ---------------------------------------------------------------------------------------------------------------------
// Parallel regions: entries that run for one chunk of partitions after the other, or for several at one time. No
// partition that an entry of a region uses meets what another entry does in another partition (regions.py). So
// chunks may run in any order, each through all entries: one thread runs chunks whose data fit the cache, a pool runs
// them side by side.

struct region_arguments {
    int64_t first, entries;
    int64_t partitions; // of the largest entry
    int64_t block;      // partitions of a chunk whose data fit the cache
    int64_t granule;    // bounds of chunks are multiples of so many partitions, a power of two
};

static struct frame *worker_frame(struct frame *frame, int64_t index) {
    return (struct frame *)(frame->worker_frames + index * frame->worker_step);
}

static struct status *worker_status(struct frame *frame, int64_t index) {
    return (struct status *)((char *)worker_frame(frame, index) + ((char *)frame->status - (char *)frame));
}

// The partitions of each of `number` equal chunks, in whole granules.
static int64_t shared_out(const struct region_arguments *region, int64_t number) {
    int64_t each = (int64_t)((uint64_t)(region->partitions + number - 1) / (uint64_t)number);
    return (each + region->granule - 1) & -region->granule;
}

static void run_chunk(struct frame *frame, const struct region_arguments *region, int64_t start, int64_t size) {
    walk_range(frame->table + region->first, region->entries, frame->args, frame, start, start + size);
    poll(frame, &frame->status->countdown, -ANYWHERE);
}

static void offer(struct frame *frame, const struct region_arguments *region, int64_t size, int64_t chunks) {
    struct thread_pool *pool = frame->pool;
    struct item *item = &pool->item;
    set(&item->frames, (int64_t)frame->worker_frames);
    set(&item->step, frame->worker_step);
    set(&item->table, (int64_t)(frame->table + region->first));
    set(&item->entries, region->entries);
    set(&item->args, (int64_t)frame->args);
    set(&item->size, size);
    set(&item->chunks, chunks);
    set(&item->members, frame->threads);
    set(&pool->done, 0);
    uint64_t past = (uint64_t)atomic_load(&pool->chunks) >> MOST_CHUNKS;
    atomic_store(&pool->chunks, (int64_t)((past + 1) << MOST_CHUNKS | (uint64_t)CHUNK_MASK >> (MOST_CHUNKS - chunks)));
    wake(pool);
}

// Run a region with the pool of the frame: offer its chunks, and take those that no worker takes.
static void lead_region(struct frame *frame, const struct region_arguments *region) {
    struct thread_pool *pool = frame->pool;
    struct status *status = frame->status;
    int64_t share = shared_out(region, frame->threads), least = shared_out(region, MOST_CHUNKS);
    int64_t size = region->block < share ? region->block : share;
    size = size < least ? least : size;
    int64_t chunks = (int64_t)((uint64_t)(region->partitions + size - 1) / (uint64_t)size), free;
    offer(frame, region, size, chunks);
    while ((free = atomic_load(&pool->chunks)) & CHUNK_MASK) {
        int64_t chunk = take_chunk(pool, free, 0);
        if (chunk < 0)
            continue;
        if (status->trap == 0)
            run_chunk(frame, region, chunk * size, size);
        atomic_fetch_add(&pool->done, 1);
    }
    for (int64_t looks = 1; atomic_load(&pool->done) < chunks; looks++) {
        nki_pause();
        wait_after(looks);
    }
    // All chunks fail in the same entry, if any does.
    for (int64_t i = 0; i < frame->threads - 1; i++) {
        const struct status *other = worker_status(frame, i);
        if (other->trap != 0 && status->trap == 0) {
            status->trap = other->trap;
            status->operand = other->operand;
            status->index = other->index;
            status->peer = other->peer;
        }
    }
}

void nki_region(struct frame *frame, const int64_t *args, int64_t first, int64_t last) {
    const struct region_arguments *region = (const void *)args;
    if (frame->pool) {
        lead_region(frame, region);
        return;
    }
    for (int64_t start = 0; start < region->partitions && frame->status->trap == 0; start += region->block)
        run_chunk(frame, region, start, region->block);
}

// Let the pool of the frame, if there is one, help this launch, or take it out of the frame if it is busy.
static void borrow_pool(struct frame *frame) {
    if (!frame->pool)
        return;
    if (atomic_exchange(&frame->pool->busy, 1)) {
        frame->pool = 0;
        return;
    }
    int64_t slots = ((char *)frame->status - (char *)frame) / 8;
    for (int64_t i = 0; i < frame->threads - 1; i++) {
        struct frame *worker = worker_frame(frame, i);
        for (int64_t slot = 0; slot < slots; slot++)
            ((int64_t *)worker)[slot] = ((const int64_t *)frame)[slot];
        worker->status = worker_status(frame, i);
        worker->scratch = (char *)worker + (frame->arena - (char *)frame); // it has no arena
        *worker->status = (struct status){0};
    }
}

static void return_pool(struct frame *frame) {
    if (frame->pool)
        atomic_store(&frame->pool->busy, 0);
}
