alter role postgres in database chaos reset all
