/* A ring buffer of bytes for one reader and one writer.
 *
 * The capacity must be a power of two, so that an index can be wrapped with a mask
 * instead of a division. head and tail run freely and may overflow: their difference
 * is still the number of bytes in the buffer, because unsigned arithmetic wraps too. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define RING_CAPACITY 16u

struct ring {
    uint8_t data[RING_CAPACITY];
    uint32_t head; /* next byte to write */
    uint32_t tail; /* next byte to read */
};

static uint32_t ring_used(const struct ring *r) { return r->head - r->tail; }

static size_t ring_write(struct ring *r, const uint8_t *src, size_t n) {
    size_t done = 0;
    while (done < n && ring_used(r) < RING_CAPACITY) {
        r->data[r->head & (RING_CAPACITY - 1u)] = src[done++];
        r->head++;
    }
    return done; /* fewer than n when the buffer is full */
}

static size_t ring_read(struct ring *r, uint8_t *dst, size_t n) {
    size_t done = 0;
    while (done < n && ring_used(r) > 0) {
        dst[done++] = r->data[r->tail & (RING_CAPACITY - 1u)];
        r->tail++;
    }
    return done;
}

int main(void) {
    struct ring r = {0};
    const char *message = "the quick tortoise overtakes the sleeping hare";
    uint8_t out[8];
    size_t sent = 0, total = strlen(message);
    while (sent < total || ring_used(&r) > 0) {
        sent += ring_write(&r, (const uint8_t *)message + sent, total - sent);
        size_t got = ring_read(&r, out, sizeof out);
        fwrite(out, 1, got, stdout);
    }
    putchar('\n');
    return 0;
}
