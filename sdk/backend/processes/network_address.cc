#include "sdk/backend/processes/network_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace backplane {
namespace {

struct InterfaceAddress {
  std::string interface, address;
  bool is_up = false, is_loopback = false, is_v4 = false;
};

std::vector<InterfaceAddress> ListAddresses() {
  std::vector<InterfaceAddress> out;
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return out;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(first, &freeifaddrs);
  for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr) continue;
    const bool v4 = i->ifa_addr->sa_family == AF_INET;
    if (!v4 && i->ifa_addr->sa_family != AF_INET6) continue;
    const void* address = v4 ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr)
                             : &reinterpret_cast<const sockaddr_in6*>(i->ifa_addr)->sin6_addr;
    char text[INET6_ADDRSTRLEN];
    if (inet_ntop(i->ifa_addr->sa_family, address, text, sizeof text) == nullptr) continue;
    out.push_back({i->ifa_name, text, (i->ifa_flags & IFF_UP) != 0, (i->ifa_flags & IFF_LOOPBACK) != 0, v4});
  }
  return out;
}

}  // namespace

absl::StatusOr<std::string> FindListenAddress(const std::string& interface) {
  const std::vector<InterfaceAddress> all = ListAddresses();
  std::set<std::string> names;
  // IPv4 first: an IPv6 address may be of the link only.
  for (bool v4 : {true, false}) {
    for (const InterfaceAddress& a : all) {
      names.insert(a.interface);
      if (a.is_v4 != v4) continue;
      if (interface.empty() ? v4 && a.is_up && !a.is_loopback : a.interface == interface || a.address == interface)
        return a.address;
    }
  }
  return absl::NotFoundError(absl::StrCat(
      "network interface ", interface.empty() ? "" : absl::StrCat(interface, " "),
      interface.empty() ? "for other machines: none is up and has an IPv4 address" : "does not exist or has no address",
      "; there are ", absl::StrJoin(names, ", ")));
}

std::string NetworkId() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  char space[64] = {};
  const ssize_t n = readlink("/proc/self/ns/net", space, sizeof space - 1);
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return absl::StrCat(host, " ", boot, " ", n > 0 ? space : "");
}

}  // namespace backplane
