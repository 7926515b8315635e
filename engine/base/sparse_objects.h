#pragma once
/// Objects by number, such as what is kept of ranks, where there are few of many.

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace ibcoll {

/// Finds an object by two loads. Numbers whose objects are not there take memory only where there
/// is one near them.
template <class T>
class SparseObjects {
 public:
  /// How many numbers there are, 0 to `size` - 1; all objects are kept.
  void resize(size_t size) { pages_.resize((size + kPage - 1) / kPage); }

  /// Null: it is not there.
  T* find(size_t number) const {
    const Page* const page = pages_[number / kPage].get();
    return page != nullptr ? (*page)[number % kPage].get() : nullptr;
  }
  /// Puts it in the place of what was there.
  T& put(size_t number, std::unique_ptr<T> object) {
    std::unique_ptr<Page>& page = pages_[number / kPage];
    if (!page) page = std::make_unique<Page>();
    return *((*page)[number % kPage] = std::move(object));
  }

  /// What `objects` objects of `size` numbers take at most, besides themselves.
  static constexpr size_t table_bytes(size_t size, size_t objects) {
    const size_t pages = (size + kPage - 1) / kPage;
    return pages * sizeof(std::unique_ptr<Page>) + std::min(pages, objects) * sizeof(Page);
  }

 private:
  static constexpr size_t kPage = 64;
  using Page = std::array<std::unique_ptr<T>, kPage>;
  std::vector<std::unique_ptr<Page>> pages_;
};

}  // namespace ibcoll
