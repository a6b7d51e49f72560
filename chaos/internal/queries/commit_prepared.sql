commit prepared 'chaos'
