#define _GNU_SOURCE
#include "executor/socket.h"
#include "host/clock.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 1024, RETRY_NS = 50000000, ATTEMPT_NS = 2000000000, PORT_TEXT_BYTES = 16 };

const char *socket_end_text(enum socket_end end)
{
    switch (end) {
    case SOCKET_DONE:
        return "done";
    case SOCKET_CLOSED:
        return "the connection was closed";
    case SOCKET_WOKEN:
        return "the run was aborted";
    case SOCKET_LATE:
        return "no answer in time";
    }
    return "";
}

/* ---- waking ---- */
int wake_new(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void wake_raise(int wake)
{
    uint64_t one = 1;
    while (write(wake, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

/* ---- waiting ---- */
/* SOCKET_DONE: something can be tried. */
static enum socket_end wait_for(int fd, short events, int64_t deadline_ns, int wake)
{
    struct pollfd fds[2] = { { .fd = fd, .events = events }, { .fd = wake, .events = POLLIN } };
    for (;;) {
        int64_t left_ns = deadline_ns == INT64_MAX ? -1 : deadline_ns - clock_now_ns();
        if (deadline_ns != INT64_MAX && left_ns <= 0)
            return SOCKET_LATE;
        int64_t left_ms = left_ns < 0 ? -1 : left_ns / 1000000 + 1;
        int ready = poll(fds, 2, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
        if (ready < 0 && errno != EINTR)
            return SOCKET_CLOSED;
        if (ready > 0)
            return fds[1].revents ? SOCKET_WOKEN : SOCKET_DONE;
    }
}

static bool is_for_later(int code)
{
    return code == EAGAIN || code == EWOULDBLOCK || code == EINTR;
}

enum socket_end socket_read(int fd, void *data, size_t bytes, int64_t deadline_ns, int wake)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = recv(fd, (char *)data + done, bytes - done, 0);
        if (got == 0 || (got < 0 && !is_for_later(errno)))
            return SOCKET_CLOSED;
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        enum socket_end end = wait_for(fd, POLLIN, deadline_ns, wake);
        if (end != SOCKET_DONE)
            return end;
    }
    return SOCKET_DONE;
}

enum socket_end socket_write(int fd, const void *data, size_t bytes, int64_t deadline_ns, int wake)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t put = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);
        if (put < 0 && !is_for_later(errno))
            return SOCKET_CLOSED;
        if (put > 0) {
            done += (size_t)put;
            continue;
        }
        enum socket_end end = wait_for(fd, POLLOUT, deadline_ns, wake);
        if (end != SOCKET_DONE)
            return end;
    }
    return SOCKET_DONE;
}

/* ---- making ---- */
static struct addrinfo *resolve(const char *host, int port, struct error *err)
{
    char service[PORT_TEXT_BYTES];
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    struct addrinfo *found = NULL;
    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host, service, &hints, &found);
    if (code == EAI_MEMORY || (code == EAI_SYSTEM && errno == ENOMEM))
        fail_memory(err);
    else if (code != 0)
        fail_kind(err, ERROR_ENVIRONMENT, "the host '%s' cannot be found: %s", host,
                  code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    return code == 0 ? found : NULL;
}

static int new_socket(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

int socket_listen(const char *host, int port, struct error *err)
{
    struct addrinfo *found = resolve(host, port, err);
    int one = 1, cause = 0, fd = -1;
    for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = new_socket(a);
        if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
            bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
            break;
        cause = errno;
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    if (found)
        freeaddrinfo(found);
    if (found && fd < 0)
        fail_kind(err, ERROR_ENVIRONMENT, "cannot listen on %s port %d: %s", host, port, strerror(cause));
    return fd;
}

bool socket_is_listening(int fd)
{
    int listens = 0;
    socklen_t size = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens &&
           fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

static int attempt(const struct addrinfo *address, int64_t deadline_ns, int wake, int *cause)
{
    int fd = new_socket(address), code = 0;
    socklen_t size = sizeof code;
    if (fd < 0) {
        *cause = errno;
        return -1;
    }
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0)
        code = errno;
    if (code == EINPROGRESS) {
        enum socket_end end = wait_for(fd, POLLOUT, deadline_ns, wake);
        code = ETIMEDOUT;
        if (end == SOCKET_DONE && getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0)
            code = errno;
    }
    if (code == 0)
        return fd;
    *cause = code;
    close(fd);
    return -1;
}

static enum socket_end rest(int64_t deadline_ns, int wake)
{
    int64_t now = clock_now_ns();
    return wait_for(-1, 0, deadline_ns - now < RETRY_NS ? deadline_ns : now + RETRY_NS, wake);
}

bool socket_rest(int64_t deadline_ns, int wake)
{
    return rest(deadline_ns, wake) == SOCKET_LATE && clock_now_ns() < deadline_ns;
}

int socket_connect(const char *host, int port, int64_t deadline_ns, int wake, struct error *err)
{
    struct addrinfo *found = resolve(host, port, err);
    if (!found)
        return -1;
    int fd = -1, cause = 0;
    enum socket_end end = SOCKET_LATE;
    do {
        int64_t now = clock_now_ns(), until = deadline_ns - now < ATTEMPT_NS ? deadline_ns : now + ATTEMPT_NS;
        for (struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
            fd = attempt(a, until, wake, &cause);
        now = clock_now_ns();
        if (fd < 0 && now < deadline_ns)
            end = rest(deadline_ns, wake);
    } while (fd < 0 && end == SOCKET_LATE && clock_now_ns() < deadline_ns);
    freeaddrinfo(found);
    if (fd < 0)
        fail_kind(err, ERROR_ENVIRONMENT, "cannot connect to %s port %d: %s", host, port,
                  end == SOCKET_WOKEN ? socket_end_text(end) : strerror(cause));
    return fd;
}

static void take_origin(unsigned char origin[SOCKET_ORIGIN_BYTES], const struct sockaddr_storage *from)
{
    memset(origin, 0, SOCKET_ORIGIN_BYTES);
    if (from->ss_family == AF_INET)
        memcpy(origin, &((const struct sockaddr_in *)(const void *)from)->sin_addr, sizeof(struct in_addr));
    else if (from->ss_family == AF_INET6)
        memcpy(origin, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, SOCKET_ORIGIN_BYTES);
    if (from->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)origin))
        memset(origin + SOCKET_ORIGIN_BYTES / 2, 0, SOCKET_ORIGIN_BYTES / 2);
}

int socket_accept(int listener, unsigned char origin[SOCKET_ORIGIN_BYTES])
{
    struct sockaddr_storage from = { 0 };
    socklen_t size = sizeof from;
    int fd = accept4(listener, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    take_origin(origin, &from);
    return fd;
}

bool socket_own_address(int fd, char host[SOCKET_HOST_BYTES], int *port)
{
    struct sockaddr_storage address = { 0 };
    socklen_t size = sizeof address;
    char service[PORT_TEXT_BYTES];
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, host, SOCKET_HOST_BYTES, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    return sscanf(service, "%d", port) == 1;
}

/* ---- this host ---- */
static bool in_network(const struct ifaddrs *i)
{
    return i->ifa_addr && i->ifa_addr->sa_family == AF_INET && (i->ifa_flags & IFF_UP) &&
           !(i->ifa_flags & IFF_LOOPBACK);
}

bool socket_network_address(int number, char out[SOCKET_HOST_BYTES])
{
    struct ifaddrs *list = NULL;
    bool found = false;
    if (getifaddrs(&list) != 0)
        list = NULL;
    for (struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
        if (!in_network(i) || number-- > 0)
            continue;
        const struct sockaddr_in *address = (const struct sockaddr_in *)(const void *)i->ifa_addr;
        found = inet_ntop(AF_INET, &address->sin_addr, out, SOCKET_HOST_BYTES) != NULL;
    }
    if (list)
        freeifaddrs(list);
    if (!found)
        snprintf(out, SOCKET_HOST_BYTES, "%s", "127.0.0.1");
    return found;
}
